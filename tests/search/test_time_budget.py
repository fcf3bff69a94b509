"""A bisection ends with its time: what is known is the answer, and what was not asked is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Rung
from accel_lab.core.time_budget import Allowance, OutOfTime, TimeBudget
from accel_lab.reporting.schema import findings_json
from accel_lab.reporting.tables.findings import paragraph
from accel_lab.reporting.words.evidence import line_of
from accel_lab.reporting.words.summary import next_steps, summarise, unasked_lines
from accel_lab.search.diagnosis import Diagnosis, Options
from fakes_lab import PROBE, STAGES, FakeLab, failing, passing


def bisect(fault: Rung, limit_s: float | None, **options: object) -> tuple[Findings, FakeLab]:
    """A bisection in which every run takes 0.1 s."""
    lab = FakeLab(fault=fault, time_budget=TimeBudget(limit_s=limit_s))
    lab.time_budget.start()
    found = Diagnosis(lab, PROBE, Options(time_s=limit_s, **options)).run()  # type: ignore[arg-type]
    return found, lab


@pytest.mark.parametrize("fault", [Rung.DYNAMO, Rung.AOT, Rung.DECOMP, Rung.FX, Rung.SCHEDULED, Rung.KERNEL])
def test_whenever_the_time_ends_the_answer_is_right_or_open(fault: Rung) -> None:
    whole, lab = bisect(fault, None)
    assert whole.culprit is not None and whole.culprit.confidence is Confidence.PROVEN and not whole.unasked
    named = 0
    for tenths in range(len(lab.asked) + 1):
        found, cut = bisect(fault, tenths / 10 - 0.05)
        assert len(cut.asked) <= max(2, tenths)
        assert found.unasked or tenths >= len(lab.asked)
        if found.culprit is None:
            assert found.verdict == "inconclusive"
            continue
        named += 1
        # The kernel stage as a whole is right, and less.
        assert found.culprit.stage in (whole.culprit.stage, STAGES[Rung.KERNEL].KERNEL)
        cut_short = any(a.name == "out_of_time" and a.open for a in found.culprit.alternatives)
        assert not (cut_short and found.culprit.confidence is Confidence.PROVEN)
    assert named >= 2


def test_the_two_runs_that_every_answer_needs_are_made_whatever_the_time() -> None:
    found, lab = bisect(Rung.FX, 0.0)
    assert [(probe.bare, probe.cold) for probe in lab.asked] == [(True, True), (False, True)]
    assert found.verdict == "inconclusive" and found.signature is not None and found.unasked


def test_a_ladder_with_rungs_missing_names_no_stage_and_says_which_were_not_run() -> None:
    found, _ = bisect(Rung.FX, 0.65)
    assert found.culprit is None
    assert any("so no stage is named" in line for line in map(line_of, found.warnings))
    assert any(line.startswith("the rungs ") for line in found.unasked)
    assert "out of time" in summarise(found)


def test_what_was_left_unasked_is_in_the_text_and_in_the_json() -> None:
    found, lab = bisect(Rung.FX, None)
    found, _ = bisect(Rung.FX, lab.now - 0.15)
    found.artifacts = "/runs/a b"
    found.next_steps = next_steps(found)
    said = paragraph(found, width=200)
    assert "Not tested: the time budget" in said
    assert found.unasked and all(line in said for line in unasked_lines(found))
    assert "accel-lab bisect --resume '/runs/a b' --budget" in said
    assert findings_json(found)["unasked"] == found.unasked


def test_what_follows_the_stage_ends_after_so_many_plain_runs_and_the_stage_does_not() -> None:
    def slow(probe: Probe) -> Outcome | None:
        if probe.bare or probe.cold:
            return replace(failing(), seconds=40.0)
        bad = probe.rung is Rung.KERNEL
        return replace(failing() if bad else passing(), seconds=500.0, facts=lab.facts)

    lab = FakeLab(fault=Rung.KERNEL, answer=slow)
    found = Diagnosis(lab, PROBE, Options()).run()
    assert found.culprit is not None and found.culprit.confidence is Confidence.PROVEN
    assert found.unasked and found.budget_s is None


def test_an_allowance_is_spent_by_runs_and_an_end_by_the_clock() -> None:
    now = 0.0
    budget = TimeBudget(limit_s=10.0, clock=lambda: now)
    assert budget.end is None and budget.remaining_s is None
    budget.start()
    with budget.without_deadline():
        assert budget.end is None
    now = 4.0
    assert budget.remaining_s == 6.0
    with budget.allow(Allowance(seconds=5.0)):
        budget.check()
        budget.spend(5.0)
        with pytest.raises(OutOfTime):
            budget.check()
    budget.check()
    said: list[tuple[str, float | None]] = []
    budget.on_phase = lambda words, seconds: said.append((words, seconds))
    with budget.allow(Allowance(seconds=2.0)):
        budget.phase("component")
    assert said == [("component", 2.0)]
