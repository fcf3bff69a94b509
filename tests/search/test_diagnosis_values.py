"""The whole search on a program that ends well with wrong numbers: each stage, with and without float64."""

from __future__ import annotations

import itertools

import pytest

from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import line_of, sentences
from accel_lab.reporting.words.summary import summarise
from fakes_lab import STAGES, SilentLab, Values, diagnose, failing, passing

#: Eager is off by its own rounding, and so is compiled code, in another direction.
ROUNDED = Values(exact=1.0, eager=1.0 + 1e-7, compiled=1.0 - 1e-7)


@pytest.mark.parametrize("reference", [True, False], ids=["float64", "no float64"])
@pytest.mark.parametrize("fault", list(STAGES), ids=str)
def test_each_stage_is_found_and_proven(fault: Rung, reference: bool) -> None:
    found = diagnose(SilentLab(fault=fault, reference=reference))
    assert found.verdict == "fails"
    assert found.signature is not None and found.signature.kind == "values"
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (STAGES[fault], Confidence.PROVEN)
    assert "f0 call 0 output 0: off by 1" in sentences(found.culprit.evidence)


@pytest.mark.parametrize("fault", list(STAGES), ids=str)
def test_rounding_is_no_part_of_the_failure(fault: Rung) -> None:
    """Without float64 every compiled rung differs from eager; with it only those from the fault on do."""
    found = diagnose(SilentLab(fault=fault, values={0: ROUNDED}))
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (STAGES[fault], Confidence.PROVEN)
    bad = [step.rung for step in found.ladder if step.verdict is Verdict.BAD]
    assert bad[0] is fault
    errors = {step.rung: step.max_abs_error for step in found.ladder[:-1]}
    assert all((error is None) is (rung not in bad) for rung, error in errors.items())
    assert all(error == pytest.approx(1.0) for error in errors.values() if error is not None)


@pytest.mark.parametrize("fault", list(STAGES), ids=str)
def test_a_gradient_that_is_wrong_is_found_like_an_output(fault: Rung) -> None:
    found = diagnose(SilentLab(fault=fault, values={0: Values(place=("grad", "t"))}))
    assert found.culprit is not None and found.culprit.stage is STAGES[fault]
    assert found.signature is not None and found.signature.message == "f0.grad"


def test_rounding_alone_passes_and_float64_is_asked_first() -> None:
    lab = SilentLab(fault=None, values={0: ROUNDED})
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("passes", [])
    assert [p.rung for p in lab.asked if dict(p.switches).get("shadow")] == [Rung.UNCOMPILED]


def test_without_float64_rounding_is_told_apart_by_nobody() -> None:
    found = diagnose(SilentLab(fault=None, values={0: ROUNDED}, reference=False))
    assert found.verdict == "fails"
    assert found.culprit is not None and found.culprit.stage is Stage.DYNAMO


def test_compiled_code_that_is_nearer_to_float64_than_eager_passes() -> None:
    found = diagnose(SilentLab(fault=Rung.FX, values={0: Values(exact=2.0, eager=1.0, wrong=2.0)}))
    assert (found.verdict, found.culprits) == ("passes", [])


def test_equal_values_are_not_compared_with_float64() -> None:
    lab = SilentLab(fault=None)
    assert diagnose(lab).verdict == "passes"
    assert not any(dict(p.switches).get("shadow") for p in lab.asked)


def test_values_that_are_wrong_uncompiled_as_well_are_not_the_compilers() -> None:
    found = diagnose(SilentLab(fault=Rung.UNCOMPILED))
    assert (found.verdict, found.culprits) == ("passes", [])


def test_values_that_no_two_uncompiled_runs_share_measure_nothing() -> None:
    """Calls of several threads, the time, random numbers without a seed: nothing is at fault for that."""
    lab = SilentLab(fault=None)
    fresh = itertools.count()

    def other_values_each_time(probe: Probe) -> Outcome | None:
        return None if probe.bare else passing(facts={**lab.facts, "recorded": {0: (next(fresh), None)}})

    lab.answer = other_values_each_time
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("inconclusive", [])
    assert "two uncompiled runs of the script do not agree with each other" in summarise(found)


def test_a_script_that_fails_only_uncompiled_is_told_so() -> None:
    lab = SilentLab(fault=Rung.FX)
    lab.answer = lambda probe: failing() if probe.rung is Rung.UNCOMPILED else None
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("passes", [])
    assert any("nothing is compiled" in warning for warning in map(line_of, found.warnings))


# -- random numbers --------------------------------------------------------------------------------

DRAWN = Values(exact=0.5, eager=0.5, compiled=0.5, draws=0.9)


def test_other_random_numbers_are_no_failure() -> None:
    lab = SilentLab(fault=None, values={0: DRAWN}, facts={"random": True, "applied": {}})
    found = diagnose(lab)
    assert found.verdict in ("passes", "by_design")
    assert found.culprits == []
    assert found.by_design is not None and "fallback_random" in found.by_design.setting
    assert any((dict(p.switches).get("inductor") or {}).get("fallback_random") for p in lab.asked)


def test_random_numbers_of_another_size_are_a_failure() -> None:
    """The setting also takes away a wrong lowering of a random operator; no seed reaches that far."""
    drawn = Values(exact=0.5, eager=0.5, compiled=0.5, draws=9.0, seeded=0.9)
    lab = SilentLab(fault=None, values={0: drawn}, facts={"random": True, "applied": {}})
    found = diagnose(lab)
    assert (found.verdict, found.by_design) == ("fails", None)


@pytest.mark.parametrize("fault", [Rung.DECOMP, Rung.LOOPS, Rung.KERNEL], ids=str)
def test_wrong_numbers_beside_random_ones_are_a_failure(fault: Rung) -> None:
    """``fallback_random`` aligns what is drawn in one region; another one stays wrong."""
    lab = SilentLab(
        fault=None,
        values={0: DRAWN, 1: Values()},
        faults={1: fault},
        facts={"random": True, "applied": {}},
    )
    found = diagnose(lab)
    assert found.verdict == "fails"
    assert found.culprit is not None
    right = found.culprit.stage is STAGES[fault]
    assert right or found.culprit.confidence is not Confidence.PROVEN


def test_a_fault_in_what_is_drawn_is_a_failure() -> None:
    lab = SilentLab(fault=Rung.KERNEL, values={0: DRAWN}, facts={"random": True, "applied": {}})
    assert diagnose(lab).verdict == "fails"


def test_a_program_that_draws_nothing_is_not_asked_for_its_random_numbers() -> None:
    lab = SilentLab(fault=Rung.FX)
    diagnose(lab, ablation="none")
    baseline = lab.asked[: next(n for n, p in enumerate(lab.asked) if p.rung is Rung.AOT)]
    assert not any((dict(p.switches).get("inductor") or {}).get("fallback_random") for p in baseline)


# -- what the ladder shows -------------------------------------------------------------------------


def test_other_wrong_numbers_on_a_rung_are_told_as_another_failure() -> None:
    lab = SilentLab(fault=Rung.DECOMP)
    lab.values = {0: Values(wrong=1e9)}
    lower = SilentLab(fault=Rung.DECOMP, values={0: Values(wrong=1.5)})
    lab.answer = lambda probe: lower._outcome(probe) if probe.rung in (Rung.DECOMP, Rung.FX) else None
    found = diagnose(lab)
    rows = {step.rung: step.verdict for step in found.ladder}
    assert rows[Rung.DECOMP] is rows[Rung.FX] is Verdict.DIFFERENT
    assert found.culprit is not None and found.culprit.confidence is not Confidence.PROVEN


def test_values_that_are_right_again_above_are_not_forced() -> None:
    found = diagnose(
        SilentLab(fault=Rung.AOT, cures=lambda probe: probe.rung in (Rung.PARTITION, Rung.DECOMP))
    )
    assert any("not monotone" in warning for warning in map(line_of, found.warnings))
    assert found.culprit is None or found.culprit.confidence is not Confidence.PROVEN


@pytest.mark.parametrize("rate", [0.9, 0.7])
@pytest.mark.parametrize("fault", [Rung.AOT, Rung.FX, Rung.KERNEL], ids=str)
def test_numbers_that_are_wrong_now_and_then_are_never_wrong_as_proven(fault: Rung, rate: float) -> None:
    right = 0
    for seed in range(10):
        found = diagnose(SilentLab(fault=fault, rate=rate, seed=seed))
        if found.culprit is None:
            continue
        assert found.culprit.confidence is not Confidence.PROVEN or found.culprit.stage is STAGES[fault]
        right += found.culprit.stage is STAGES[fault]
    assert right >= 5


def test_two_regions_that_are_wrong_in_two_stages_are_both_named() -> None:
    lab = SilentLab(fault=None, values={0: Values(), 1: Values()}, faults={0: Rung.DECOMP, 1: Rung.KERNEL})
    found = diagnose(lab)
    assert {culprit.stage for culprit in found.culprits} == {Stage.DECOMPOSITION, Stage.CODEGEN}


def test_with_the_wrong_region_held_below_a_healthy_one_passes() -> None:
    lab = SilentLab(fault=None, values={0: Values(), 1: Values()}, faults={1: Rung.FX})
    found = diagnose(lab)
    assert [culprit.stage for culprit in found.culprits] == [Stage.FX_PASSES]
    held = [dict(p.switches)["hold"] for p in lab.asked if "hold" in dict(p.switches)]
    assert held and all(set(regions) == {"1"} for regions in held)


def test_a_plain_run_neither_supports_nor_contradicts_wrong_numbers() -> None:
    found = diagnose(SilentLab(fault=Rung.FX))
    assert found.failure_rate == 1.0
    assert found.baseline[0].verdict is Verdict.GOOD
    assert "recording" in found.baseline[0].note
