"""``x.to("mock")``: the device in torch, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "fakes" / "torch_mock_device_cases.py"


@pytest.mark.torch
def test_tensors_move_to_the_device_and_back(torch_pythons: tuple[str, ...], tmp_path: Path) -> None:
    for number, python in enumerate(torch_pythons):
        folder = tmp_path / str(number)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MOCK_")},
            "PYTHONPATH": str(ROOT / "bisect"),
            "ACCEL_LAB_DEBUG": "1",
            "ACCEL_LAB_MOCK_ARTIFACTS": str(folder),
        }
        ran = subprocess.run(
            [python, str(CASES)], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
        if found.pop("available"):
            assert len(found) > 15
        assert [name for name, holds in found.items() if not holds] == []
