"""A golden case in other words, from the script to its workaround and its public issue, with a real torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Fails on every release that tests are run with; its component is an operator of the kernel stage.
CASE = "191499-amin-uint8-tail"


@pytest.mark.torch
@pytest.mark.slow
def test_a_known_failure_in_other_words_gets_its_number_and_a_way_around(
    torch_python: str, tmp_path: Path
) -> None:
    script = ROOT / "benchmarks" / "reworded" / f"{CASE}.py"
    words = ("--json", "-q", "--no-bundle", "--no-minimize", "--workarounds-for", "5m")
    done = subprocess.run(
        [sys.executable, "-m", "accel_lab", "bisect", *words, "--python", torch_python, str(script)],
        capture_output=True,
        text=True,
        timeout=1200,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "bisect"), "ACCEL_LAB_HOME": str(tmp_path / "home")},
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["workarounds"] and all(way["verified"] == "plain" for way in found["workarounds"])
    assert [known["issue"] for known in found["known"]] == [191499]
