"""A job of 300 good steps: the capsule of the one that goes wrong is bisected to the stage at fault."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import accel_lab

pytestmark = [pytest.mark.torch, pytest.mark.slow]
ROOT = Path(accel_lab.__file__).resolve().parents[1]
LOOP = Path(__file__).resolve().parents[1] / "data" / "record" / "loop.py"


def lab(python: str, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ACCEL_LAB_HOME": str(tmp_path / "home")}
    command = [python, *words]
    return subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800, check=False
    )


def test_the_capsule_of_the_300th_step_names_the_stage(torch_python: str, tmp_path: Path) -> None:
    done = lab(torch_python, tmp_path, "-m", "accel_lab", "record", "--json", str(LOOP))
    assert done.returncode == 1, done.stderr[-3000:]
    found = json.loads(done.stdout)
    (capsule,) = found["capsules"]
    assert found["exit_code"] == 0 and found["recorded"]["graphs"] == 2
    assert capsule["verified"] and capsule["kind"] == "wrong"
    options = ["--json", "--no-minimize", "--no-bundle", "--no-components"]
    done = lab(torch_python, tmp_path, "-m", "accel_lab", "bisect", *options, capsule["folder"])
    assert done.returncode == 1, done.stderr[-3000:]
    # The stage of repros/inject-codegen-accuracy, the same fault in a script of its own.
    assert json.loads(done.stdout)["culprit"]["stage"] == "codegen"


def test_under_torchrun_each_rank_keeps_its_own_by_the_backend(torch_python: str, tmp_path: Path) -> None:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(LOOP)]
    done = lab(torch_python, tmp_path, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    kept = sorted((tmp_path / "kept").glob("rank*/*/capsule.json"))
    capsules = [json.loads(path.read_text()) for path in kept]
    assert [capsule["rank"] for capsule in capsules] == ["0", "1"]
    assert {capsule["kind"] for capsule in capsules} == {"wrong"}
    ends = [json.loads(path.read_text()) for path in (tmp_path / "kept").glob("rank*/recorded.json")]
    assert [end["graphs"] for end in ends] == [2, 2]
