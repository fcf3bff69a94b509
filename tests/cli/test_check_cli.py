"""`accel-lab check`: the table, the exit codes, the settings it reads, and repros that are run once more."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accel_lab.cli.commands import check_command
from accel_lab.cli.main import cli
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.outcome import Outcome, Status
from accel_lab.execution.run_folder.workspace import Workspace

SCRIPT = """\
import torch


def region(x):
    return (x.double() + 1).float() * 2


print(torch.compile(region)(torch.ones(3, 4)).sum().item())
"""


def invoke(*words: str) -> Any:
    """The command without its last catch of errors."""
    return CliRunner().invoke(cli, ["check", *words], standalone_mode=False)


def row(**changes: Any) -> dict[str, Any]:
    made = {
        "constraint": "dtype",
        "severity": "error",
        "op": "to",
        "source": "/tmp/script.py:5",
        "code": "return x.double()",
        "graph": "graph0",
        "node": "double",
        "message": "float64 is not a dtype of the device",
        "change": "use float32",
    }
    return {**made, **changes}


def answer(*violations: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "program": "script.py",
        "accelerator": "mock",
        "torch": "2.14.1",
        "graphs": 1,
        "constraints": ["dtype", "layout"],
        "violations": list(violations),
        "script_failed": None,
    }
    return {**made, **changes}


# ---- words, without torch


def test_the_table_shows_constraint_operator_line_and_change() -> None:
    text = check_command.describe(answer(row(), row(severity="warning", source="", constraint="layout")), [])
    assert text.startswith("VIOLATES  script.py on mock, 1 graph (torch 2.14.1): 1 violation, 1 warning")
    for word in ("✗ dtype", "! layout", "script.py:5", "return x.double()", "use float32", "graph0 double"):
        assert word in text


def test_no_violation_says_what_was_checked_and_a_failed_script_is_told() -> None:
    assert check_command.describe(answer(), []).endswith("checked: dtype, layout")
    repro = check_command.Repro(constraint="dtype", path="/tmp/r.py", verdict="run again, it violates")
    text = check_command.describe(answer(row(), script_failed="ValueError: no"), [repro])
    assert "repro of dtype: run again, it violates  /tmp/r.py" in text
    assert "the script failed: ValueError: no" in text


def test_one_breach_seen_in_several_graphs_is_one_row_and_errors_come_first() -> None:
    merged = check_command._merged([row(severity="warning"), row(), row(node="other")])
    assert [(entry["severity"], entry["count"]) for entry in merged] == [("error", 2), ("warning", 1)]


def outcome(folder: Path, status: Status = Status.OK, **facts: Any) -> Outcome:
    return Outcome(status=status, folder=str(folder), facts=facts, exit_code=0 if status is Status.OK else 1)


def test_an_error_of_the_child_is_usage_or_the_labs(tmp_path: Path) -> None:
    wrong = {"type": "accel_lab.accelerators.settings.SettingError", "message": "alignment is a whole number"}
    with pytest.raises(UsageError, match="alignment is a whole number"):
        check_command._found(outcome(tmp_path, Status.REFUSED, lab_error=wrong))
    with pytest.raises(LabError, match="boom") as raised:
        check_command._found(outcome(tmp_path, lab_error={"type": "KeyError", "message": "boom"}))
    assert not isinstance(raised.value, UsageError)
    with pytest.raises(UsageError, match="compiles nothing"):
        check_command._found(outcome(tmp_path))
    with pytest.raises(LabError, match="before it compiled anything"):
        check_command._found(outcome(tmp_path, Status.EXIT))


def test_wrong_usage_is_said_before_anything_runs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert isinstance(invoke("missing.py").exception, UsageError)
    both = invoke("--adapter", "mock", "--dtype", "float16", str(script)).exception
    assert isinstance(both, UsageError)
    assert "brings its own constraints" in str(both)


def test_a_repro_is_believed_only_if_it_names_the_constraint(tmp_path: Path, torch_free: Any) -> None:
    scripts = {
        "same": "print('violates dtype: to: no'); raise SystemExit(1)",
        "other": "print('violates layout: to: no'); raise SystemExit(1)",
        "gone": "print('no violation')",
        "crash": "raise ValueError('violates dtype: not printed')",
    }
    verdicts = {}
    for name, text in scripts.items():
        path = tmp_path / "run" / f"{name}.py"
        path.write_text(text)
        verdicts[name] = torch_free(f"repro: {path}").verdict
    assert verdicts.pop("same") == "rerun: violates the same constraint"
    assert all("does not violate it" in verdict for verdict in verdicts.values()), verdicts
    assert torch_free("no repro could be made: sparse").path is None
    outside = tmp_path / "outside.py"  # what a child says is run only if it lies in the run's folder
    outside.write_text(scripts["same"])
    assert torch_free(f"repro: {outside}").path is None


def test_the_reduced_script_is_given_if_it_shows_the_same(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "run", tmp_path)
    shows = "print('violates dtype: to: no'); raise SystemExit(1)"
    paths = {name: tmp_path / "run" / f"{name}.py" for name in ("small", "gone", "whole")}
    for name, path in paths.items():
        path.write_text("print('no violation')" if name == "gone" else shows)
    for name, size in (("small", (1, 9)), ("gone", (0, 0))):
        part = {"said": f"repro: {paths[name]}", "operators": 1, "of": 9}
        found = {"repros": {"dtype": f"repro: {paths['whole']}"}, "reduced": {"dtype": part}}
        repro = check_command._confirmed("dtype", found, sys.executable, workspace)
        assert (repro.operators, repro.of) == size and repro.violates
        kept = tmp_path / "run" / "repros" / ("small.py" if name == "small" else "whole.py")
        assert repro.path == str(kept) and kept.read_text() == shows
    small = replace(repro, operators=1, of=9, path="/r/violates_dtype.py")
    assert "with 1 of 9 operators  /r/violates_dtype.py" in check_command.describe(answer(row()), [small])


@pytest.fixture
def torch_free(tmp_path: Path) -> Any:
    """Run a repro by this interpreter in an empty workspace."""
    workspace = Workspace(tmp_path / "run", tmp_path)
    assert (workspace.library.parent / "accel_lab" / "accelerators" / "constraints" / "repro.py").exists()
    return lambda said: check_command._again("dtype", said, sys.executable, workspace)


# ---- whole runs


def run(torch_python: str, tmp_path: Path, text: str, options: Sequence[str]) -> Any:
    script = tmp_path / "script.py"
    script.write_text(text)
    return invoke("--python", torch_python, "--out", str(tmp_path / "runs"), *options, str(script))


@pytest.mark.torch
def test_violations_are_exit_code_1_with_the_users_line_and_a_repro(
    torch_python: str, tmp_path: Path
) -> None:
    done = run(torch_python, tmp_path, SCRIPT, ["--json", "--strict", "--alignment", "4"])
    assert done.return_value == 1, done.output
    told = json.loads(done.stdout)
    assert {entry["constraint"] for entry in told["violations"]} == {"dtype"}
    assert {os.path.basename(entry["source"]) for entry in told["violations"]} == {"script.py:5"}
    assert told["script_failed"] is None
    assert [repro["verdict"] for repro in told["repros"]] == ["rerun: violates the same constraint"]
    (repro,) = told["repros"]
    assert 0 < repro["operators"] < repro["of"]
    assert Path(repro["path"]).parent == Path(told["folder"]) / "repros"


@pytest.mark.torch
def test_what_is_asked_for_decides_and_a_failing_script_keeps_its_table(
    torch_python: str, tmp_path: Path
) -> None:
    done = run(torch_python, tmp_path, SCRIPT + "raise ValueError('later')\n", ["--constraint", "memory"])
    assert isinstance(done.exception, LabError)
    assert "ValueError: later" in str(done.exception)
    done = run(torch_python, tmp_path, SCRIPT, ["--alignment", "none"])
    assert isinstance(done.exception, UsageError)
    assert "alignment is a whole number from 1 to 4096, not 'none'" in str(done.exception)
