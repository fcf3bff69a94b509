"""The mock's variables and its table: refused in one line before anything runs, else set for every run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accel_lab.cli.accelerator_settings import set_up_mock
from accel_lab.cli.main import cli
from accel_lab.core.errors import UsageError
from accel_lab.mock.settings import VARIABLES


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """No variable of the mock is set before or after; the working directory is a repository of its own."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def test_the_table_of_a_project_becomes_variables(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tomllib")
    (clean / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert set_up_mock() == {}
    monkeypatch.setenv("MOCK_CORES", "8")
    (clean / "accel-lab.toml").write_text(
        "[mock]\nalignment = 8\ncores = 2\nstrict = true\nconstraints = ['dtype', 'layout']\n"
    )
    assert set_up_mock() == {
        "MOCK_ALIGNMENT": "8",
        "MOCK_STRICT": "1",
        "MOCK_CONSTRAINTS": "dtype,layout",
    }
    assert os.environ["MOCK_ALIGNMENT"] == "8"
    assert os.environ["MOCK_CORES"] == "8"  # the environment goes before the table


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[mock]\nallignment = 8\n", "no setting 'allignment'; .*did you mean alignment"),
        ("[mock]\nalignment = 0\n", r"\[tool.accel-lab.mock\] alignment is a whole number from 1"),
        ("[mock]\nfaults = 'exp_tail_wrong'\n", "no setting 'faults'"),
        ("[mock]\ndtypes = 3\n", "dtypes is a list, not 3"),
        ("[mock]\nconstraints = ['layuot']\n", "there is no constraint 'layuot'; .*did you mean layout"),
        ("mock = 3\n", "is a table, not 3"),
        ("[mock\n", "is not valid TOML"),
    ],
)
def test_a_wrong_table_is_one_line(clean: Path, text: str, says: str) -> None:
    pytest.importorskip("tomllib")
    (clean / "accel-lab.toml").write_text(text)
    with pytest.raises(UsageError, match=says) as raised:
        set_up_mock()
    assert "\n" not in str(raised.value)


def test_a_variable_of_another_program_is_left_alone(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCK_SERVER_URL", "http://localhost")
    monkeypatch.setenv("MOCK_REPRO", "0")
    assert set_up_mock() == {}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "MOCK_FAULTS",
            "exp_tail",
            "MOCK_FAULTS: no fault is called 'exp_tail'; there are accumulate_downcast",
        ),
        ("MOCK_FAULTS", "exp_tail_wrng", "did you mean exp_tail_wrong"),
        (
            "MOCK_BACK_END",
            "refrence",
            "MOCK_BACK_END is main or reference, not 'refrence': did you mean",
        ),
        ("MOCK_CORES", "many", "MOCK_CORES is a whole number"),
        ("MOCK_ALIGNMNT", "3", "there is no variable MOCK_ALIGNMNT: did you mean MOCK_ALIGNMENT"),
        ("MOCK_ERRORS", "layot", "MOCK_ERRORS: there is no constraint 'layot'.*did you mean layout"),
    ],
)
@pytest.mark.parametrize(
    "words", [("bisect", "--accelerator", "mock"), ("run", "--rung", "mock"), ("check",), ("minimize",)]
)
def test_a_misspelt_variable_ends_a_command_before_anything_runs(
    clean: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], name: str, value: str, says: str
) -> None:
    script = clean / "script.py"
    script.write_text("raise SystemExit('it ran')\n")
    monkeypatch.setenv(name, value)
    done: Any = CliRunner().invoke(
        cli, [*words, "--out", str(clean / "runs"), str(script)], standalone_mode=False
    )
    assert isinstance(done.exception, UsageError)
    with pytest.raises(UsageError, match=says):
        raise done.exception
    assert not (clean / "runs").exists()
