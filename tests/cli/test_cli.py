"""The command line: exit codes, one-line errors, streams, the main job end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import jsonschema
import pytest

from accel_lab.reporting.schema import load_schema

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "bisect"

#: A fault with a known place on every release: the script itself puts a wrong decomposition into the table.
SILU = """
import torch
import torch._inductor.decomposition as table

table.decompositions[torch.ops.aten.silu.default] = lambda x: x * torch.sigmoid(x) + 1


def f(x):
    return torch.nn.functional.silu(x)


x = torch.arange(6.0)
torch.testing.assert_close(torch.compile(f)(x), f(x))
"""


def lab(*args: str, timeout: float = 600.0, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accel_lab", *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: p / "absent.py", "does not exist"),
        (lambda p: p, "folder"),
        (lambda p: _write(p / "e.py", ""), "empty"),
        (lambda p: _write(p / "s.py", "def f(:"), "not valid Python"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, make: object, says: str) -> None:
    done = lab("bisect", str(make(tmp_path)))  # type: ignore[operator]
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_interpreter_without_torch_is_exit_code_3(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "v", with_pip=False)
    script = _write(tmp_path / "s.py", "print(1)")
    done = lab(
        "bisect",
        "--python",
        str(tmp_path / "v" / "bin" / "python"),
        "--out",
        str(tmp_path / "o"),
        str(script),
    )
    assert done.returncode == 3
    assert "no usable torch" in done.stderr
    git = lab(
        "bisect",
        "--exit-code",
        "git",
        "--python",
        str(tmp_path / "v" / "bin" / "python"),
        "--out",
        str(tmp_path / "o"),
        str(script),
    )
    assert git.returncode == 125


def test_an_unknown_interpreter_is_exit_code_2(tmp_path: Path) -> None:
    done = lab("bisect", "--python", "/no/such/python", str(_write(tmp_path / "s.py", "print(1)")))
    assert done.returncode == 2 and "--python" in done.stderr


def test_no_script_and_a_bad_regex(tmp_path: Path) -> None:
    assert lab("bisect").returncode == 2
    done = lab("bisect", "--fail-regex", "(", str(_write(tmp_path / "s.py", "print(1)")))
    assert done.returncode == 2 and "--fail-regex" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bisect", "--metric", "latency"), "--versions"),
        (("bisect", "--versions", "all", "--accelerator", "mock"), "accel-lab matrix"),
        (("bisect", "--versions", "all", "--metric", "latency", "--worse-by", "0.5x"), "--worse-by 0.5x"),
        (("bisect", "--versions", "all", "--pythons", "/no/such/python"), "--pythons"),
        (("matrix",), "name releases of torch"),
        (("matrix", "--versions", "all", "--rungs", "attic"), "the rungs are"),
    ],
)
def test_a_line_that_makes_no_sense_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = lab(*words, "--out", str(tmp_path / "o"), str(_write(tmp_path / "s.py", "print(1)")))
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_options_after_the_script_belong_to_it(tmp_path: Path) -> None:
    script = _write(tmp_path / "s.py", "import sys; print(sys.argv)")
    done = lab("bisect", "--python", "/no/such/python", str(script), "--python", "x", "-m", "y")
    assert "/no/such/python" in done.stderr


def test_list_and_clean_without_runs(tmp_path: Path) -> None:
    assert lab("list", ACCEL_LAB_HOME=str(tmp_path)).returncode == 0
    assert lab("clean", ACCEL_LAB_HOME=str(tmp_path)).returncode == 2
    assert lab("clean", "--all", ACCEL_LAB_HOME=str(tmp_path)).returncode == 0
    assert lab("report", "nothing", ACCEL_LAB_HOME=str(tmp_path)).returncode == 2


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.torch
def test_the_main_job_end_to_end(torch_python: str, tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    script = _write(user / "wrong_silu.py", SILU)
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-m", "accel_lab", "bisect", "--json", "--python", torch_python, "wrong_silu.py"],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=user,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "ACCEL_LAB_HOME": str(home)},
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, load_schema())
    assert found["culprit"]["stage"] == "decomposition"
    assert found["culprit"]["confidence"] == "proven"
    assert found["culprit"]["component"]["name"] == "aten.silu.default"
    assert found["culprit"]["side"] == "front_end"
    assert sorted(p.name for p in user.iterdir()) == ["wrong_silu.py"]
    assert script.read_text() == SILU

    folder = Path(found["artifacts"])
    assert (folder / "report.html").read_text().startswith("<!")
    with zipfile.ZipFile(found["bundle"]) as bundle:
        names = bundle.namelist()
    assert {"ISSUE.md", "repro.py", "rerun.sh", "MANIFEST.json"} <= set(names)

    answers = {p: p.read_bytes() for p in folder.glob("reduce/*/answers.jsonl")}
    again = lab("report", "--json", str(folder), ACCEL_LAB_HOME=str(home))
    told = json.loads(again.stdout)
    assert answers and {p: p.read_bytes() for p in answers} == answers  # nothing was reduced again
    assert told["repro"] == found["repro"] and found["repro"]["verified"]
    assert told["culprit"] == found["culprit"]
    assert told["seconds"] == found["seconds"] and told["probes"] == found["probes"]
    checked = lab("verify", "--yes", "--python", torch_python, found["bundle"], ACCEL_LAB_HOME=str(home))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "MATCH" in checked.stdout
    listed = json.loads(lab("list", "--json", ACCEL_LAB_HOME=str(home)).stdout)
    assert [row["stage"] for row in listed] == ["decomposition"]


@pytest.mark.torch
@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(torch_python: str, tmp_path: Path) -> None:
    script = _write(tmp_path / "wrong_silu.py", SILU)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "accel_lab",
            "bisect",
            "--out",
            str(out),
            *("--no-components", "--no-minimize"),
            "--python",
            torch_python,
            str(script),
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    journal = None
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        journals = list(out.glob("*/journal.jsonl"))
        if journals and journals[0].read_text().count('"ended"') >= 3:
            journal = journals[0]
            break
        time.sleep(0.2)
    assert journal is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = [json.loads(line) for line in journal.read_text().splitlines() if '"ended"' in line]
    done = lab("bisect", "--json", "--no-bundle", "--resume", str(journal.parent), timeout=900)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["culprit"]["stage"] == "decomposition"
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    for row in before:
        assert sum(r["event"] == "running" and r["key"] == row["key"] for r in rows) == 1
