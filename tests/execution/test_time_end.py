"""A probe that would start after the end of the time is not started, and the journal says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.errors import OutOfTime, Unanswered
from accel_lab.core.probe import Probe, Program
from accel_lab.core.time_budget import TimeBudget
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.workspace import Workspace

PROBE = Probe(program=Program(path="/x/script.py", sha256="0"))


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a process was started")


def test_a_late_probe_is_not_started_and_reading_the_run_again_says_the_same(tmp_path: Path) -> None:
    budget = TimeBudget(limit_s=0.0)
    budget.start()
    workspace = Workspace(tmp_path, tmp_path)
    with Prober(python="python", workspace=workspace, runner=never, time_budget=budget) as prober:
        with pytest.raises(OutOfTime, match="not started"):
            prober.submit(PROBE).result()
        assert prober.asked == 0
    with Prober(python="python", workspace=workspace, runner=never, replay=True) as prober:
        with pytest.raises(OutOfTime, match="not started in that run"):
            prober.submit(PROBE).result()
        with pytest.raises(Unanswered):
            prober.submit(PROBE.again(1)).result()
