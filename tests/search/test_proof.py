"""The one proof: what a pair of runs, its repeats, its comparisons and its alternatives make of a claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import Component, Considered, Culprit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import words_of
from accel_lab.search.alternatives.registry import ALTERNATIVES
from accel_lab.search.diagnosis import Diagnosis, Options
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.components import localize_component
from accel_lab.search.premise import Baseline
from accel_lab.search.proof import (
    PairOfRuns,
    capped,
    prove,
    prove_again,
    prove_component,
    prove_verdicts,
    qualify,
    surest,
)
from accel_lab.search.repeats import Tally, doubt
from fakes_lab import FakeLab, diagnose, failing, passing

PROBE = Probe(program=Program(path="x.py"))
OPEN = Considered(name="other", open=True, why=Evidence.said("it may be the other"))
OUT = Considered(name="other", open=False, why=Evidence.said("it is not the other"))
LEAD = Considered(
    name="premise", open=True, why=Evidence.said("the premise is in doubt"), limit=Confidence.INCONCLUSIVE
)


def runs(runs: int, failures: int = 0) -> Tally:
    return Tally(runs=runs, failures=failures)


def pair(passes: int = 5, fails: int = 9, **more: Any) -> PairOfRuns:
    return PairOfRuns(bad=runs(2, 2), good=runs(passes), failing=runs(fails, fails), **more)


def test_a_pair_that_luck_does_not_explain_is_proven() -> None:
    proof = prove(pair(), budget=0.01)
    assert proof.proven and proof.doubt == doubt(runs(9, 9), 5)


@pytest.mark.parametrize(
    ("changed", "confidence"),
    [
        ({"passes": 1}, Confidence.LIKELY),  # one pass may be luck
        ({"fails": 1}, Confidence.LIKELY),  # one failure may be luck as well
        ({"comparisons": 1000}, Confidence.LIKELY),  # picked from so many, one passes by luck
        ({"held": False}, Confidence.INCONCLUSIVE),  # asked again, a side changed its verdict
    ],
)
def test_what_a_pair_lacks_is_not_proven(changed: dict[str, Any], confidence: Confidence) -> None:
    proof = prove(pair(**changed), budget=0.01)
    assert proof.confidence is confidence
    assert proof.doubt > 0.01


def test_a_failing_side_that_passes_now_and_then_is_no_proof_unless_that_was_known() -> None:
    odd = PairOfRuns(bad=runs(3, 2), good=runs(60), failing=runs(40, 36))
    assert not prove(odd, budget=0.01).proven
    known = PairOfRuns(bad=runs(3, 2), good=runs(60), failing=runs(40, 36), flaky=True)
    assert prove(known, budget=0.01).proven


@pytest.mark.parametrize(
    ("alternatives", "confidence"),
    [
        ([], Confidence.PROVEN),
        ([OUT], Confidence.PROVEN),
        ([OUT, OPEN], Confidence.LIKELY),
        ([OPEN, LEAD], Confidence.INCONCLUSIVE),
    ],
)
def test_an_open_alternative_limits_every_claim(
    alternatives: list[Considered], confidence: Confidence
) -> None:
    assert prove(pair(), alternatives, budget=0.01).confidence is confidence
    assert surest(alternatives) is confidence
    assert capped(Confidence.INCONCLUSIVE, alternatives) is Confidence.INCONCLUSIVE
    culprit = qualify(Culprit(stage=Stage.DYNAMO, confidence=Confidence.PROVEN), alternatives)
    assert culprit.confidence is confidence
    assert culprit.alternatives == tuple(alternatives)
    assert culprit.evidence == tuple(a.why for a in alternatives if a.open)


def test_only_what_contests_the_component_lowers_it() -> None:
    part = Component(kind="op", name="f", confidence=Confidence.PROVEN)
    culprit = Culprit(stage=Stage.DYNAMO, confidence=Confidence.PROVEN, component=part)
    told = qualify(culprit, [OPEN]).component
    assert told is not None and told.confidence is Confidence.PROVEN
    both = Considered(name="other", open=True, why=Evidence.said(""), component=True)
    told = qualify(culprit, [both]).component
    assert told is not None and told.confidence is Confidence.LIKELY


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 50))
def test_more_comparisons_never_make_a_pair_surer(passes: int, fails: int, comparisons: int) -> None:
    one, many = pair(passes, fails), pair(passes, fails, comparisons=comparisons)
    assert one.doubt <= many.doubt <= 1.0
    assert many.doubt == min(1.0, comparisons * one.doubt)


def test_verdicts_with_bounds_of_their_own_are_added_up() -> None:
    assert prove_verdicts([]).proven and prove_verdicts([0.002, 0.003]).proven
    assert not prove_verdicts([0.006, 0.006]).proven
    assert not prove_verdicts([], [OPEN]).proven


# -- the runs ---------------------------------------------------------------------------------------


def runner(lab: FakeLab, fails: int = 9) -> LadderRunner:
    target = lab.signature(failing())
    return LadderRunner(lab=lab, probe=PROBE, baseline=Baseline(target=target, tally=runs(fails, fails)))


def step(verdict: Verdict, switches: tuple[tuple[str, Any], ...] = ()) -> Step:
    outcome = failing() if verdict is Verdict.BAD else passing()
    return Step(
        rung=Rung.FX,
        verdict=verdict,
        outcome=outcome,
        settings=switches,
        failures=int(verdict is Verdict.BAD),
    )


def test_the_very_question_that_cured_is_asked_again() -> None:
    lab = FakeLab(fault=None)
    cure = step(Verdict.GOOD, (("off", {"patterns": ["p#0"]}),))
    again, proof = prove_again(runner(lab), step(Verdict.BAD), cure, runs(9, 9), comparisons=3)
    assert proof.proven and again.runs == 1 + len(lab.asked) > 2
    assert all(probe.switches == cure.settings for probe in lab.asked)
    assert {probe.rung for probe in lab.asked} == {Rung.FX}


def test_a_cure_that_does_not_hold_is_no_cure() -> None:
    lab = FakeLab(fault=Rung.FX)  # fails whatever is left out
    part = Component(kind="pass", name="p")
    told, flaky = prove_component(runner(lab), part, step(Verdict.GOOD), step(Verdict.BAD), comparisons=1)
    assert told.confidence is Confidence.INCONCLUSIVE and "passed before failed" in words_of(*flaky)
    told, flaky = prove_component(runner(lab), part, None, step(Verdict.BAD), comparisons=1)
    assert (told, flaky) == (part, ())  # nothing was left out: likely, as it was


def test_a_frame_is_proven_by_its_own_question_and_not_by_the_last_one() -> None:
    """The line is searched after the frame was found: what was asked last is not the frame's question."""
    key = "f a.py:1"
    source = {str(n): f"line {n}" for n in range(1, 9)}
    front = {
        "frames": [{"key": key, "call": 0}, {"key": "g a.py:9", "call": 0}],
        "lines": {key: {"segments": [[n] for n in range(1, 9)], "source": source}},
    }
    facts = {"front": front, "regions": [{"id": 0, "name": "f"}]}
    asked: list[dict[str, Any]] = []

    def answer(probe: Probe) -> Outcome:
        switch = dict(dict(probe.switches).get("front") or {})
        if probe.attempt:
            asked.append(switch)
        stop = switch.get("stop")
        good = key in switch.get("eager", ()) or (stop is not None and stop[1] <= 4)
        return (passing if good or probe.rung is Rung.UNCOMPILED else failing)(facts=facts)

    lab = FakeLab(answer=answer)
    at = Step(rung=Rung.DYNAMO, verdict=Verdict.BAD, outcome=failing(facts=facts), failures=1)
    named = localize_component(runner(lab), Stage.DYNAMO, at, ladder=[at])
    assert named.component is not None and (named.component.kind, named.component.name) == ("frame", "f")
    assert named.component.confidence is Confidence.PROVEN
    assert asked and all(switch == {"eager": [key]} for switch in asked)


def test_the_printed_number_of_a_broken_compiler_is_that_of_its_proof() -> None:
    def answer(probe: Probe) -> Outcome | None:
        if probe.rung is Rung.KERNEL:
            return failing("No working C++ compiler found", kind="InductorError")
        return None

    lab = FakeLab(fault=Rung.KERNEL, answer=answer, compiler=(False, "/bin/false ended with 1"))
    found = Diagnosis(lab, PROBE, Options()).run()
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.ENVIRONMENT, Confidence.PROVEN)
    assert found.confidence is not None and found.confidence >= 0.99
    below = [probe for probe in lab.asked if probe.rung is Rung.FX]
    assert len(below) >= 2 and any(probe.attempt for probe in below)


def test_no_number_is_printed_where_there_is_no_pair() -> None:
    found = Diagnosis(FakeLab(fault=Rung.UNCOMPILED), PROBE, Options()).run()
    assert found.culprit is not None and found.culprit.stage is Stage.EAGER
    assert found.confidence is None


# -- the registry -----------------------------------------------------------------------------------


def test_every_alternative_says_what_it_is_and_what_taught_it() -> None:
    names = [alternative.name for alternative in ALTERNATIVES]
    assert len(names) == len(set(names)) >= 9
    assert all(alternative.issue and alternative.stages for alternative in ALTERNATIVES)


def test_what_was_considered_is_told_with_the_culprit() -> None:
    found = Diagnosis(FakeLab(fault=Rung.FX), PROBE, Options(components=False)).run()
    assert found.culprit is not None
    told = {alternative.name: alternative.open for alternative in found.culprit.alternatives}
    assert told == {"rounding": False, "meta_kernel": False, "layout": False}


@pytest.mark.parametrize("backend", ["inductor", "house"])
def test_rungs_that_a_backend_of_the_scripts_own_skips_leave_the_stage_open(backend: str) -> None:
    """Its failure starts between AOTAutograd and the loops; passes and decompositions were not run alone."""
    facts = {"regions": [{"id": 0, "name": "f", "backend": backend}]}

    def answer(probe: Probe) -> Outcome | None:
        fails = probe.bare or probe.rung in (Rung.LOOPS, Rung.SCHEDULED, Rung.KERNEL)
        return failing(facts=facts) if fails else None

    found = diagnose(FakeLab(fault=Rung.LOOPS, facts=facts, answer=answer), components=False)
    assert found.culprit is not None
    skipped = any(one.name == "skipped_rung" and one.open for one in found.culprit.alternatives)
    own = backend == "house"
    assert (Rung.FX not in {step.rung for step in found.ladder}, skipped) == (own, own)
    assert found.culprit.confidence is (Confidence.INCONCLUSIVE if own else Confidence.PROVEN)
