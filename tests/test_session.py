"""Reading what the user named: bad input is one clear line; what must run cold or is not covered is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_lab.core.errors import UsageError
from accel_lab.core.probe import Program
from accel_lab.execution.programs import must_run_cold, not_covered, read_program


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty.py", b"  \n", "empty"),
        ("bad.py", b"def f(:\n", "line 1"),
        ("binary.py", b"x = 1\x00", "NUL"),
        ("bundle.zip", b"PK\x03\x04rest", "accel-lab verify"),
    ],
)
def test_bad_scripts(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UsageError, match=says) as caught:
        read_program(str(path), None, ())
    assert "\n" not in str(caught.value)


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_program(str(tmp_path / "no.py"), None, ())
    with pytest.raises(UsageError, match="folder"):
        read_program(str(tmp_path), None, ())


@pytest.mark.parametrize(
    ("text", "cold"),
    [
        ("import os\nos.environ['A'] = '1'\n", True),
        ("import os\nos.environ.setdefault('A', '1')\n", True),
        ("from os import environ\nenviron.update(A='1')\n", True),
        ("import os\nos.putenv('A', '1')\n", True),
        ("import os\nprint(os.environ['A'])\n", False),
        ("x = {}\nx['a'] = 1\n", False),
    ],
)
def test_scripts_that_set_the_environment_run_cold(tmp_path: Path, text: str, cold: bool) -> None:
    path = tmp_path / "s.py"
    path.write_text(text)
    assert bool(must_run_cold(Program(path=str(path)))) is cold


def test_entries_that_no_rung_reaches_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s.py"
    path.write_text("import torch\nep = torch.export.export(m, ())\n")
    assert any("torch.export.export" in line for line in not_covered(Program(path=str(path))))
    path.write_text("import torch\ntorch.compile(m)\n")
    assert not_covered(Program(path=str(path))) == []


def test_arguments_of_a_module_are_part_of_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    path.write_text("1")
    one = read_program(None, "pytest", (f"{path}::a",)).sha256
    path.write_text("2")
    assert read_program(None, "pytest", (f"{path}::a",)).sha256 != one
