"""Faults of the tools that the lab takes the place of, which no other test holds by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accel_lab.request import new_folder

COMMANDS = ("bisect", "diff", "guards", "capture", "check", "bench", "report", "list", "clean", "demo")
#: Asks a command for its help, and says which modules that took.
HELP = """
import json, sys
from accel_lab.cli.main import run
codes = [run([name, "--help"]) for name in json.loads(sys.argv[1])]
print("\\n" + json.dumps([codes, [name for name in ("torch", "matplotlib") if name in sys.modules]]))
"""


def test_no_command_imports_torch_before_it_runs_anything() -> None:
    """A command of the older module took 17 s, since it imported torch to print its help."""
    done = subprocess.run(
        [sys.executable, "-c", HELP, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    codes, imported = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * len(COMMANDS) and imported == []


def test_runs_of_one_second_do_not_overwrite_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-000000")
    made = {new_folder(tmp_path, "x.py", "folder", "diff") for _ in range(3)}
    assert len(made) == 3 and {folder.parent for folder in made} == {tmp_path}
