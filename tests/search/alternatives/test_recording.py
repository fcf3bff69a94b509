"""A script that the recording itself makes fail, or keeps from failing, is judged without one."""

from __future__ import annotations

import pytest

from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.reporting.words.evidence import line_of
from accel_lab.search.premise import NOT_RECORDED
from fakes_lab import STAGES, FakeLab, diagnose, failing, passing


def recorded(probe: Probe) -> bool:
    return not probe.bare and probe.limits.record_mb > 0


def kept_alive(probe: Probe) -> Outcome | None:
    """A script that fails where a tensor stays alive: recorded always, else as the fault says."""
    return failing() if recorded(probe) else None


def test_a_script_that_fails_only_where_it_is_recorded_passes() -> None:
    lab = FakeLab(fault=None, answer=kept_alive)
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("passes", [])
    assert NOT_RECORDED in map(line_of, found.warnings)


def test_a_failure_that_the_recording_hides_is_bisected_without_one() -> None:
    lab = FakeLab(fault=Rung.DECOMP, answer=lambda probe: passing() if recorded(probe) else None)
    found = diagnose(lab)
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.DECOMPOSITION, Confidence.PROVEN)
    assert NOT_RECORDED in map(line_of, found.warnings)
    assert not any(map(recorded, lab.asked[8:]))


@pytest.mark.parametrize("fault", [Rung.DYNAMO, Rung.AOT, Rung.DECOMP, Rung.FX], ids=str)
def test_a_failure_that_the_recording_brings_to_eager_is_not_eagers(fault: Rung) -> None:
    lab = FakeLab(fault=fault, answer=kept_alive)
    found = diagnose(lab)
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (STAGES[fault], Confidence.PROVEN)
    assert NOT_RECORDED in map(line_of, found.warnings)


def test_a_script_that_fails_uncompiled_costs_one_more_run() -> None:
    lab = FakeLab(fault=Rung.UNCOMPILED)
    found = diagnose(lab)
    assert found.culprit is not None and found.culprit.stage is Stage.EAGER
    assert NOT_RECORDED not in found.warnings
    assert [probe.rung for probe in lab.asked if not probe.limits.record_mb] == [Rung.UNCOMPILED]


def test_a_failure_of_the_lab_that_stays_without_a_recording_is_told_so() -> None:
    lab = FakeLab(fault=None, answer=lambda probe: None if probe.bare else failing())
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("inconclusive", [])
    assert any("the lab changes in order to look" in line for line in map(line_of, found.warnings))
