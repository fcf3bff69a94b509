"""``accel-lab guards`` and GuardInspector: a script with graph breaks and two kinds of recompilation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import accel_lab.reporting
from accel_lab.cli.main import cli, main
from accel_lab.inspection.compile_report import CompileReport
from accel_lab.reporting.page import guards as page
from accel_lab.reporting.words import guards as words

SCHEMA = Path(str(accel_lab.reporting.__file__)).with_name("guards.schema.json")
SCRIPT = """
import torch


def helper(x, n):
    y = x * n
    print("seen")
    return y + 1


@torch.compile
def breaks(x, n):
    y = helper(x, n)
    if y.sum() > 0:
        y = y - 1
    return y


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "train"

    def forward(self, x, n):
        return x * n if self.mode == "train" else x


breaks(torch.ones(3), 2)
scale = torch.compile(Scale())
for i, n in enumerate((1.5, 2.5, 3)):
    scale(torch.ones(3), n)
scale.mode = "eval"
scale(torch.ones(3), 3)
"""
FACTS: dict[str, Any] = {
    "frames": [
        {
            "id": "0/0",
            "function": "f",
            "file": "/a/<b>.py",
            "line": 3,
            "operators": 2,
            "guard_count": 9,
            "guards": ["___check_type_id(L['n'], 1234)", "L['n'] == 3"],
            "seconds": 1.5,
            "backend_seconds": 1.0,
            "code_gen_seconds": 0.5,
            "restarts": [],
            "failed": "",
        }
    ],
    "frames_left_out": 2,
    "breaks": [
        {
            "function": "f",
            "file": "/a/<b>.py",
            "line": 4,
            "source": "print(x)",
            "reason": "builtin: print <script>alert(1)</script>",
            "explanation": [],
            "hints": ["Avoid calling print."],
            "times": 3,
        }
    ],
    "recompiles": [
        {
            "function": "f",
            "file": "/a/<b>.py",
            "line": 3,
            "failed": [{"compilation": "0/0", "guard": "L['n'] == 3", "value": "4"}],
        }
    ]
    * 4,
    "recompiles_left_out": 0,
    "limit": 8,
    "at_limit": [],
}


@pytest.mark.torch
def test_the_report_names_each_break_and_each_failed_guard_with_its_value(
    torch_pythons: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SCRIPT)
    for python in torch_pythons:
        with pytest.raises(SystemExit) as ended:
            main(["guards", "--json", "--backend", "eager", "--python", python, str(script)])
        assert ended.value.code == 1
        answer = json.loads(capsys.readouterr().out)
        jsonschema.validate(answer, json.loads(SCHEMA.read_text()))
        found = {one["source"]: one["rewrite"] for one in answer["breaks"]}
        assert "reorderable_logging_functions" in found['print("seen")']
        assert "torch.where" in found["if y.sum() > 0:"]
        again = [
            one["failed"][0] for one in answer["recompilations"] if one["place"]["function"] == "forward"
        ]
        assert {"2.5", "'eval'"} <= {one["value"] for one in again}, again
        assert all(one["compilation"] for one in again)
        own = {one["place"]["file"] for one in answer["compilations"]}
        assert own == {str(script)}, own
        listed = [one for one in answer["compilations"] if one["place"]["function"] == "forward"]
        assert any("mode" in guard for one in listed for guard in one["guards"] or ())
        assert not any("top_saved_tensors_hooks" in guard for one in listed for guard in one["guards"] or ())
        assert answer["costliest"] and answer["seconds"] > 0
        folder = Path(answer["folder"])
        assert (folder / "guards.html").is_file() and json.loads(
            (folder / "guards.json").read_text()
        ) == answer


@pytest.mark.torch
def test_a_script_that_compiles_nothing_is_refused_in_one_line(
    torch_python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "plain.py"
    script.write_text("import torch\nprint(torch.ones(2) + 1)\n")
    with pytest.raises(SystemExit) as ended:
        main(["guards", "--backend", "eager", "--python", torch_python, "--out", str(tmp_path), str(script)])
    assert ended.value.code == 2 and "compiles nothing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [script], "a run that was refused leaves nothing"


@pytest.mark.parametrize("command", ["diff", "guards", "capture", "check", "run"])
def test_a_command_without_a_script_names_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, *(["--rung", "fx"] if command == "run" else [])])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and f"accel-lab {command} SCRIPT" in said and len(said.splitlines()) == 1


def test_the_inspector_reports_a_function_in_this_process() -> None:
    torch = pytest.importorskip("torch")
    from accel_lab import GuardInspector

    def f(x: Any, n: int) -> Any:
        return x * n

    with GuardInspector(f, backend="eager") as inspector:
        for n in (2, 3):
            assert inspector(torch.ones(2), n).tolist() == [n, n]
        report = inspector.report()
    assert [one.place.function for one in report.compilations] == ["f", "f"]
    assert [one.failed[0].value for one in report.recompilations] == ["3"]
    with GuardInspector(f, backend="eager") as inspector:
        inspector(torch.ones(2), 2)
        assert len(inspector.report().compilations) == 1 and not inspector.report().recompilations


def test_words_and_page_tell_what_the_facts_hold() -> None:
    report = CompileReport.from_facts(FACTS)
    text = words.terminal(report)
    assert "1 graph in 1 function, 3 graph breaks, 4 recompilations; compiling took 1.5 s" in text
    assert "f (<b>.py:3) is recompiled on most calls: 5 compilations" in text
    assert "failed guard of compilation 0/0: L['n'] == 3; the value is 4" in text
    assert "2 later compilations are not listed" in text
    html = page.render(report, "slow.py", "2.13.0")
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "type(L[&#39;n&#39;]) is the same" in html and "1234" not in html


def test_help_names_the_exit_codes() -> None:
    ended = CliRunner().invoke(cli, ["guards", "--help"])
    assert ended.exit_code == 0 and "1 some" in ended.output
