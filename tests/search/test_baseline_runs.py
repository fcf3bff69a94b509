"""What the first runs of a script tell: state that is kept, and what the lab itself makes, are no chance."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Rung, Stage
from accel_lab.reporting.words.evidence import line_of
from accel_lab.search.diagnosis import Diagnosis
from fakes_lab import FakeLab, failing, passing

PROBE = Probe(program=Program(path="/x/script.py", sha256="0"))


def diagnose(lab: FakeLab) -> Findings:
    return Diagnosis(lab, PROBE).run()


class MakingLab(FakeLab):
    """Only what is recorded fails."""

    def _outcome(self, probe: Probe) -> Outcome:
        return passing() if probe.bare else failing(facts=dict(self.facts))


def test_what_only_recorded_runs_show_is_the_labs_own_doing_and_not_flaky() -> None:
    lab = MakingLab()
    found = diagnose(lab)
    assert (found.verdict, found.culprits, found.failure_rate) == ("inconclusive", [], 1.0)
    assert any("from what the lab changes in order to look" in line for line in map(line_of, found.warnings))
    assert len(lab.asked) == 11  # the last one without a recording


@dataclass
class RememberingLab(FakeLab):
    """What the first runs leave behind keeps the later ones from failing."""

    first: int = 2

    def _outcome(self, probe: Probe) -> Outcome:
        warm = self.warm and not probe.cold and not probe.bare
        facts = {} if probe.bare else dict(self.facts)
        return failing(facts=facts) if len(self.asked) <= self.first else passing(warm=warm, facts=facts)


@pytest.mark.parametrize("first", [1, 2])
def test_a_failure_of_the_first_runs_only_is_told_as_state_that_is_kept(first: int) -> None:
    lab = RememberingLab(first=first)
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("inconclusive", [])
    assert any(
        f"the first {first} of " in line and "left outside" in line for line in map(line_of, found.warnings)
    )
    assert len(lab.asked) <= 12


def test_a_failure_that_the_warm_process_hides_is_no_state() -> None:
    lab = FakeLab(fault=Rung.FX)
    lab.answer = lambda probe: passing(warm=True, facts=dict(lab.facts)) if warm_one(lab, probe) else None
    found = diagnose(lab)
    assert not lab.is_warm
    assert found.culprit is not None and found.culprit.stage is Stage.FX_PASSES


def warm_one(lab: FakeLab, probe: Probe) -> bool:
    return lab.warm and not probe.cold and not probe.bare
