"""What the live lines say of a run as a whole."""

from __future__ import annotations

import pytest

from accel_lab.cli.progress import Progress
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program


def test_a_run_that_asks_anew_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    probe = Probe(program=Program(path="x.py"))
    progress = Progress(quiet=False)
    for _ in range(2):  # a line of releases has a folder, and so a journal, for each of them
        progress("anew", probe, None)
    progress("start", probe, None)
    progress("end", probe, Outcome(status=Status.OK))
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "another version of the lab" in line] == lines[:1]
    assert len(lines) == 2


def test_a_part_of_the_search_begins_with_the_time_that_it_may_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(quiet=False)
    progress.phase("stage: 6 rungs, a run takes 4 s", None)
    progress.phase("component", 125.0)
    progress.phase("component", 40.0)
    assert capsys.readouterr().err.splitlines() == [
        "… stage: 6 rungs, a run takes 4 s",
        "… component (at most 2 min 05 s more)",
        "… component (at most 40 s more)",
    ]
