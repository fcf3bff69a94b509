"""A capsule is read like a stranger's file, and a command takes it like the script in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import accel_lab.record
from accel_lab.cli.commands import record_command
from accel_lab.cli.main import main
from accel_lab.core.errors import UsageError
from accel_lab.core.process_exit import ProcessExit
from accel_lab.execution.programs import read_program
from accel_lab.record import verified
from accel_lab.record.verified import finish_capsule, read_capsule
from accel_lab.reduction.graph.emit import DIFFERS

DATA: dict[str, Any] = {
    "schema": "accel-lab/capsule/1",
    "kind": "wrong",
    "call": 300,
    "rows": [{"what": "output 0", "error": 0.5, "eager": 1e-7, "values": "1 / 2"}],
    "error": None,
    "stand_ins": False,
    "reason": "",
    "rank": "1",
    "time": "2026-01-01T00:00:00Z",
    "torch": "2.14.1",
    "python": "3.11.7",
    "settings": {},
    "verified": None,
    "said": "",
}

META = {"shape": [4], "dtype": "float32", "stride": [1], "device": "cpu", "requires_grad": False}
#: relu of four numbers, as a capsule holds it.
GRAPH: dict[str, Any] = {
    "schema": "accel-lab/capture/1",
    "graph": 0,
    "reason": "",
    "region": 0,
    "compile": {"backend": "inductor", "options": {}, "fullgraph": False, "dynamic": None},
    "code": "",
    "nodes": [
        {"name": "x", "op": "placeholder", "meta": META},
        {
            "name": "relu",
            "op": "call_function",
            "target": "torch.relu",
            "args": [{"ref": "x"}],
            "kwargs": {},
            "meta": META,
        },
        {
            "name": "output",
            "op": "output",
            "args": [{"tuple": [{"ref": "relu"}]}],
            "kwargs": {},
            "meta": None,
        },
    ],
    "functions": {},
    "sizes": {},
    "calls": [
        {
            "order": 1,
            "reason": "",
            "file": "graph0_call0.safetensors",
            "values": "",
            "backward": [],
            "storages": {"s0": {"dtype": "float32", "numel": 4, "device": "cpu"}},
            "inputs": [
                {
                    "kind": "tensor",
                    "storage": "s0",
                    "dtype": "float32",
                    "size": [4],
                    "stride": [1],
                    "offset": 0,
                    "requires_grad": False,
                    "leaf": True,
                    "parameter": False,
                    "name": "x",
                }
            ],
            "settings": {"grad": True, "inference": False, "default_dtype": "float32", "autocast": []},
            "metas": {},
        }
    ],
}


def capsule(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "capsule.json").write_text(json.dumps({**DATA, **changes}))
    return folder


def test_what_failed_is_said_in_one_line(tmp_path: Path) -> None:
    said = read_capsule(capsule(tmp_path / "a")).description
    assert said == "call 300 of a graph returned a wrong output 0 (error 0.5, eager's own 1e-07), rank 1"
    error = {"type": "torch.InductorError", "message": "no kernel"}
    raised = read_capsule(capsule(tmp_path / "b", kind="raises", error=error, call=0, rank=""))
    assert raised.description == "a graph as it was compiled raised torch.InductorError: no kernel"


def test_a_capsule_that_cannot_be_a_script_says_so_and_runs_nothing(tmp_path: Path) -> None:
    folder = capsule(tmp_path / "c", reason="an input is a DTensor")
    done = finish_capsule(folder, "/no/such/python")
    assert done.verified is False and "an input is a DTensor" in done.verification
    assert read_capsule(folder).data == done.data
    with pytest.raises(UsageError, match=r"a capsule without a script"):
        read_program(str(folder), None, ())


def test_a_capsule_is_taken_like_its_script(tmp_path: Path) -> None:
    folder = capsule(tmp_path / "c")
    (folder / "repro.py").write_text("print(1)\n")
    program = read_program(str(folder), None, ())
    assert program.path == str((folder / "repro.py").resolve())
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        read_program(str(tmp_path / "plain"), None, ())


@pytest.mark.parametrize(
    "text", ["{", "[]", json.dumps({**DATA, "call": "x"}), json.dumps({**DATA, "rows": [1]}), "{}"]
)
def test_a_damaged_capsule_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "capsule.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_capsule(tmp_path)
    assert "\n" not in str(caught.value)


def test_only_plain_settings_of_the_compiler_become_code(tmp_path: Path) -> None:
    settings = {
        "torch._inductor.config.cpp.simdlen": "1",
        "torch._inductor.config.x": "__import__('os').system('true')",
        "torch._inductor.config.y\nimport os": "1",
        "os.config.name": "1",
        "torch._inductor.config.debug_dir": "'/home/me'",
        "torch._dynamo.config.assume_static_by_default": "False",
    }
    torch = "2.14.1\nimport os"
    found = read_capsule(capsule(tmp_path / "c", settings=settings, torch=torch))
    text = verified._with_settings("import torch\n\n\nf()\n", found)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if line] == [
        "import torch",
        "import torch._dynamo.config",
        "import torch._inductor.config",
        "torch._dynamo.config.assume_static_by_default = False",
        "torch._inductor.config.cpp.simdlen = 1",
        "f()",
    ]


def test_a_job_gets_nothing_but_the_standard_library_until_it_compiles() -> None:
    code = (
        "import sys, accel_lab.record as r; r.start(); "
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('torch', 'numpy', 'cattrs', 'click', 'jinja2', 'platformdirs', 'docker')])"
    )
    root = str(Path(accel_lab.record.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": root}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_number_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="every must be >= 0"):
        accel_lab.record.start(every=-1)


def test_commands_that_take_a_run_or_a_bundle_know_a_capsule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = capsule(tmp_path / "c", reason="an input is a DTensor")
    for words, code, said in (
        (["verify", "--no-run", str(folder)], 0, "call 300 of a graph returned a wrong output 0"),
        (["verify", "--yes", str(folder)], 1, "MISMATCH: its graph cannot be written as a script"),
        (["verify", str(tmp_path)], 2, "is a folder: name a bundle.zip"),
        (["bundle", str(folder)], 2, "is a capsule, not a run: `accel-lab bisect"),
        (["report", str(folder)], 2, "is a capsule, not a run: `accel-lab bisect"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        told = capsys.readouterr()
        assert ended.value.code == code, told
        assert said in told.out + told.err


def test_the_end_of_a_recording_is_told_on_the_terminal(tmp_path: Path) -> None:
    folder = capsule(tmp_path / "c", reason="an input is a DTensor")
    kept = [finish_capsule(folder, "/no/such/python")]
    counts = {"graphs": 2, "checked": 5, "unchecked": {"too large": 3}, "check_seconds": 1.0, "notes": []}
    lines = record_command.lines_of(kept, counts, 1, tmp_path)
    assert lines[:3] == [
        "The job ended with exit code 1.",
        "2 graphs, 5 of their calls checked in 1.0 s.",
        "3 calls were not checked: too large.",
    ]
    assert "call 300 of a graph" in lines[-2] and "cannot be written as a script" in lines[-1]
    assert record_command.lines_of([], {}, None, tmp_path)[0] == "The job was ended by a signal."


def test_the_command_hands_the_job_what_the_recording_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    asked: list[dict[str, Any]] = []

    def run(command: list[str], *, to_stderr: bool) -> int:
        assert to_stderr and command[2] == "record"
        asked.append(json.loads(Path(command[3]).read_text()))
        kept = Path(asked[0]["folder"]) / "rank1" / "graph0-call7-wrong"
        kept.mkdir(parents=True)
        capsule(kept, reason="an input is a DTensor")
        return 0

    monkeypatch.setattr(record_command.process, "run_in_terminal", run)
    words = ["record", "--json", "--every", "7", "--out", str(tmp_path / "out"), str(tmp_path / "train.py")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--epochs", "3"])
    found = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and [one["call"] for one in found["capsules"]] == [300]
    assert json.loads((Path(found["artifacts"]) / "record.json").read_text()) == found
    assert asked[0]["program"]["args"] == ["--epochs", "3"]
    assert asked[0]["sampling"] == {**accel_lab.record._sampling(), "every": 7}


@pytest.mark.parametrize(
    ("ended", "stderr", "holds", "said"),
    [
        (
            ProcessExit(exit_code=1),
            f"AssertionError: {DIFFERS}",
            True,
            "the graph alone reproduces the failure, in a fresh process",
        ),
        (ProcessExit(exit_code=0), "", False, "the graph alone does not reproduce the failure (exit 0)"),
        (
            ProcessExit(exit_code=1),
            "ImportError: no torch",
            False,
            "the graph alone does not reproduce the failure (exit 1)",
        ),
        (ProcessExit(limit="timeout"), "", False, "verification was stopped (timeout)"),
    ],
)
def test_what_the_run_by_itself_says_of_a_capsule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: ProcessExit, stderr: str, holds: bool, said: str
) -> None:
    folder = capsule(tmp_path / "c")
    (folder / "graph0.json").write_text(json.dumps(GRAPH))
    monkeypatch.setattr(verified, "_run", lambda *words: (ended, stderr))
    done = finish_capsule(folder, "python")
    assert done.verified is holds and done.verification.startswith(said)
    script = (folder / "repro.py").read_text()
    compile(script, "repro.py", "exec")
    assert "returned a wrong output 0" in script.splitlines()[0] and DIFFERS in script
