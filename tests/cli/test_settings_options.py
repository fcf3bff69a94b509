"""Options from the settings file and the environment, what goes before what, what is refused; logging."""

from __future__ import annotations

import ast
import logging
import os
import re
from pathlib import Path

import click
import pytest

from accel_lab.cli import logs, option_names, settings
from accel_lab.cli.main import Lazy, cli, main

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = r"(?:MOCK|ACCEL_LAB)_[A-Z0-9_]*[A-Z0-9]"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def parsed(*argv: str) -> dict[str, object]:
    """The parameters that ``accel-lab ARGV`` would call its command with."""
    group = click.Context(cli, info_name="accel-lab")
    command = Lazy.get_command(cli, group, argv[0]) if isinstance(cli, Lazy) else None
    assert command is not None
    return command.make_context(argv[0], list(argv[1:]), parent=group).params


def test_command_line_before_variable_before_table_before_common_key_before_default(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parsed("run", "x.py")["timeout"] == 300
    (work / "accel-lab.toml").write_text("timeout = 10\nmemory = 512\n[run]\ntimeout = 20\nrung = 'fx'\n")
    found = parsed("run", "x.py")
    assert (found["timeout"], found["memory"], found["rung"]) == (20, 512, "fx")
    assert parsed("diff", "x.py")["timeout"] == 10
    monkeypatch.setenv("ACCEL_LAB_RUN_TIMEOUT", "30")
    assert parsed("run", "x.py")["timeout"] == 30
    assert parsed("run", "--timeout", "40", "x.py")["timeout"] == 40


def test_flags_lists_and_paths(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCEL_LAB_VERIFY", raising=False)
    (work / "pyproject.toml").write_text(
        "[tool.accel-lab.bisect]\nbundle = false\nout = 'runs'\nverify = true\n"
        "[tool.accel-lab.check]\ndtype = ['float16', 'int8']\nstrict = true\n"
    )
    found = parsed("bisect", "x.py")
    assert (found["bundle"], found["verify"], found["out"]) == (False, True, str(work / "runs"))
    checked = parsed("check", "x.py")
    assert (checked["dtypes"], checked["strict"]) == (("float16", "int8"), True)


def test_a_named_file_takes_the_place_of_the_found_one(work: Path) -> None:
    (work / "accel-lab.toml").write_text("timeout = 10\n")
    (work / "other.toml").write_text("[run]\nrung = 'fx'\n")
    found = parsed("run", "--config", "other.toml", "x.py", "--config", "the script's own")
    assert (found["timeout"], found["rung"]) == (300, "fx")
    assert found["program"] == ("x.py", "--config", "the script's own")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timout = 3", "there is no setting timout: did you mean timeout?"),
        ("[bisect]\njbos = 3", "there is no setting bisect.jbos: did you mean jobs?"),
        ("[bisekt]\njobs = 3", "there is no table bisekt: did you mean bisect?"),
        ("[clean]\nall = true", "there is no table clean"),
        ("[bisect]\nyes = true", "there is no setting bisect.yes"),
        ("resume = 'x'", "there is no setting resume"),
        ("timeout = [1, 2]", "--timeout takes one value"),
        ("[run]\nrung = {a = 1}", "run.rung must be a number, true or false, text"),
        ("[run]\nrung = 'fxx'", "'fxx' is not one of"),
    ],
)
def test_what_there_is_not_is_one_line(
    work: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "accel-lab.toml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["run", "x.py"])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ACCEL_LAB_RUN_TIMOUT", "ACCEL_LAB_RUN_TIMEOUT"),
        ("ACCEL_LAB_RUN_JSN", "ACCEL_LAB_RUN_JSON"),
        ("ACCEL_LAB_HOM", "ACCEL_LAB_HOME"),
    ],
)
def test_a_misspelt_variable_is_one_line(
    work: Path, name: str, near: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(SystemExit) as ended:
        main(["run", "x.py"])
    assert ended.value.code == 2
    assert f"there is no variable {name}: did you mean {near}?" in capsys.readouterr().err


def test_the_variables_of_the_lab_itself_are_nobodys_mistake() -> None:
    own = dict.fromkeys(re.findall(VARIABLE, (ROOT / "docs" / "settings.md").read_text("utf-8")), "1")
    assert "ACCEL_LAB_PROBE" in own and "ACCEL_LAB_STORE" in own
    own = {name: value for name, value in own.items() if name != "ACCEL_LAB_BISECT_MAX_DISK"}
    for command in option_names.SETTABLE:
        settings.refuse_unknown_variables(command, option_names.known()[command], own)


def test_a_file_that_others_may_write_gives_no_options(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = work / "accel-lab.toml"
    file.write_text("timeout = 10\n")
    file.chmod(0o666)
    assert parsed("run", "x.py")["timeout"] == 300
    assert "is not read" in capsys.readouterr().err


def read_variables() -> set[str]:
    """Every variable that a source names: as a whole text in Python, as a word elsewhere."""
    found: set[str] = set()
    files = [*(ROOT / "bisect").rglob("*.py"), ROOT / "tests" / "conftest.py"]
    for file in [*files, *(ROOT / "tests" / "fakes").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.findall(rf"^{VARIABLE}$", node.value))
    for file in (ROOT / "Makefile", ROOT / "Dockerfile", *(ROOT / "docker").glob("Dockerfile*")):
        found.update(re.findall(rf"\b{VARIABLE}\b", file.read_text("utf-8")))
    return found


def test_the_table_names_every_variable_and_no_other() -> None:
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(rf"`({VARIABLE})`", row.split("|")[1])}
    read = read_variables()
    assert {"MOCK_FAULTS", "ACCEL_LAB_HOME", "ACCEL_LAB_STORE"} <= read
    assert sorted(read - named) == []
    assert sorted(named - read) == []


def test_log_lines_go_to_the_file_whole_and_harmless(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = click.Command("c", callback=lambda: logging.getLogger("accel_lab.x").info("a\x1b[2Jb\nc"))
    logs.add_options(command)
    try:
        command.main(["-v", "--log-file", "lab.log"], standalone_mode=False)
    finally:
        logs.close()
    for text in ((work / "lab.log").read_text("utf-8"), capsys.readouterr().err):
        assert "accel_lab.x: ab\\nc" in text and "\x1b" not in text
    assert logs.ROOT.handlers == []


def test_a_log_file_that_cannot_be_written_is_one_line(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--log-file", os.path.join("none", "lab.log"), "x.py"])
    assert ended.value.code == 2
    assert "cannot write none/lab.log" in capsys.readouterr().err
