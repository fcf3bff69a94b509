"""The clock in a user's script, with a module that stands for torch; and what the lab reads of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.workarounds import region_seconds

CLOCK = Path(__file__).resolve().parents[2] / "bisect" / "accel_lab" / "child" / "region_clock.py"
TORCH = """
class Module:
    def __init__(self, model):
        self._orig_mod, self.forward = model, model

    def __call__(self, *args, **words):
        return self.forward(*args, **words)

def compile(model=None, **words):
    if model is None:
        return lambda function: compile(function, **words)
    if isinstance(model, type(len)):
        return Module(model)
    def compiled(*args, **more):
        return model(*args, **more)
    return compiled
"""
START = f'import runpy\nrunpy.run_path({str(CLOCK)!r})["start"](torch)\n'


def run(tmp_path: Path, code: str) -> tuple[subprocess.CompletedProcess[str], Outcome]:
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "script.py").write_text("import torch\n" + START + code)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    (tmp_path / "stderr.txt").write_text(done.stderr)
    return done, Outcome(status=Status.OK, exit_code=0, folder=str(tmp_path))


@pytest.mark.parametrize(
    "code",
    [
        "@torch.compile\ndef f(x):\n    return x + 1\nprint(f(1), f.__name__)\n",
        "@torch.compile(dynamic=True)\ndef f(x):\n    return x + 1\nprint(f(x=1), f.__name__)\n",
    ],
)
def test_a_region_is_timed_when_the_script_has_ended(tmp_path: Path, code: str) -> None:
    done, outcome = run(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "2 f\n"), done.stderr
    seconds = region_seconds(outcome)
    assert seconds is not None and seconds.runs > 1 and seconds.compiled > 0 < seconds.plain


def test_a_module_stays_one(tmp_path: Path) -> None:
    done, outcome = run(tmp_path, "m = torch.compile(len)\nprint(m('abc'), type(m).__name__)\n")
    assert done.stdout == "3 Module\n", done.stderr
    assert region_seconds(outcome) is not None


@pytest.mark.parametrize(
    "code",
    [
        "f = torch.compile(lambda x: x)\n",  # never called
        "import os\nf = torch.compile(lambda x: os.stat(x))\nos.mkdir('d')\nf('d')\nos.rmdir('d')\n",
    ],
)
def test_what_cannot_be_called_again_has_no_time(tmp_path: Path, code: str) -> None:
    done, outcome = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert region_seconds(outcome) is None


@pytest.mark.parametrize(
    "said",
    ["{}", "[1]", "not json", '{"compiled": -1, "plain": 1, "runs": 2}',
     '{"compiled": 1, "plain": "x", "runs": 1}', '{"compiled": 1e999, "plain": 1, "runs": 1}'],
)  # fmt: skip
def test_what_a_script_prints_in_the_clocks_name_is_not_believed(tmp_path: Path, said: str) -> None:
    (tmp_path / "stderr.txt").write_text(f"accel-lab-region-seconds {said}\n")
    assert region_seconds(Outcome(status=Status.OK, folder=str(tmp_path))) is None
