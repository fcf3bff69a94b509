"""One build's verdict where the failure is a hang or silently wrong numbers, on a lab without processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.repeats import Tally
from accel_lab.versions.build_verdict import TargetFailure, decide
from fakes_lab import FakeLab, failing, passing

PROBE = Probe(program=Program(path="s.py"), limits=Limits(timeout_s=300.0))
HANG = TargetFailure(signature=Signature(kind="timeout"))
HUNG = Outcome(status=Status.TIMEOUT)


def lab(answer: Callable[[Probe], Outcome | None]) -> FakeLab:
    return FakeLab(fault=None, answer=answer)


def test_a_build_that_ends_in_time_is_good_after_one_short_run() -> None:
    made = lab(lambda probe: None)
    told = decide(made, PROBE, HANG)
    assert (told.verdict, told.runs) == (Verdict.GOOD, 1)
    (probe,) = made.asked
    assert probe.limits.timeout_s == 30.0 and not probe.cold


def test_a_hang_is_believed_after_the_whole_time_only() -> None:
    hangs = lab(lambda probe: HUNG if probe.rung is Rung.KERNEL else None)
    told = decide(hangs, PROBE, HANG)
    assert told.verdict is Verdict.BAD
    assert [p.limits.timeout_s for p in hangs.asked if p.rung is Rung.KERNEL] == [30.0, 300.0]

    slow = lab(lambda probe: HUNG if probe.limits.timeout_s < 300.0 else None)
    assert decide(slow, PROBE, HANG).verdict is Verdict.GOOD


def test_a_script_that_hangs_uncompiled_is_not_the_compilers() -> None:
    told = decide(lab(lambda probe: HUNG), PROBE, HANG)
    assert told.verdict is Verdict.SKIP
    assert "with nothing compiled" in told.why


@dataclass(frozen=True)
class _Comparison:
    reason: str = "values"
    max_abs_error: float | None = 1.0
    detail: str = "off by one"


@dataclass(frozen=True)
class _Difference:
    region: str = "f#0"
    name: str = "f"
    call: int = 0
    phase: str = "output"
    path: str = "out"
    place: tuple[str, int, str, str] = ("f#0", 0, "output", "out")
    line: str = "f call 0 output out: off by one"
    comparison: _Comparison = _Comparison()


class _ValuesLab(FakeLab):
    """Wrong at the kernel rung if ``wrong``, in the same way as the failing build if ``same``."""

    wrong: bool = True
    same: bool = True

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        return [_Difference()] if self.wrong and got.facts.get("kernel") else []

    def same_differences(self, one: Sequence[Any], two: Sequence[Any]) -> bool:
        return self.same


def values_lab(wrong: bool = True, same: bool = True, **answers: Outcome) -> _ValuesLab:
    facts = {"regions": [{"id": 0, "name": "f", "backend": "inductor"}], "random": False}

    def answer(probe: Probe) -> Outcome:
        if probe.bare:
            return passing()
        kernel = probe.rung is Rung.KERNEL
        return answers.get(probe.rung.value) or passing(facts={**facts, "kernel": kernel})

    made = _ValuesLab(fault=None, answer=answer)
    made.wrong, made.same = wrong, same
    return made


WRONG = TargetFailure(
    signature=Signature(kind="values", type="values", message="f.output"), values=(_Difference(),)
)


@pytest.mark.parametrize(
    ("made", "verdict", "why"),
    [
        (values_lab(), Verdict.BAD, ""),
        (values_lab(wrong=False), Verdict.GOOD, ""),
        (values_lab(same=False), Verdict.DIFFERENT, "other wrong values"),
        (values_lab(kernel=failing()), Verdict.DIFFERENT, "fails in another way: ValueError: boom"),
        (values_lab(wrong=False, uncompiled=failing()), Verdict.SKIP, "nothing to compare"),
        (
            values_lab(kernel=Outcome(status=Status.NOT_APPLICABLE, notes=("too old",))),
            Verdict.SKIP,
            "too old",
        ),
        (values_lab(kernel=passing(facts={"regions": []})), Verdict.SKIP, "no compiled region"),
    ],
)
def test_silently_wrong_numbers(made: _ValuesLab, verdict: Verdict, why: str) -> None:
    told = decide(made, PROBE, WRONG)
    assert told.verdict is verdict
    assert why in told.why if why else told.why == ""


def test_numbers_are_held_against_the_builds_own_uncompiled_run_and_its_float64_twin() -> None:
    made = values_lab()
    decide(made, PROBE, WRONG)
    asked = {(probe.rung, probe.switches) for probe in made.asked}
    assert (Rung.UNCOMPILED, ()) in asked
    assert (Rung.UNCOMPILED, (("shadow", True),)) in asked


def test_a_check_that_cannot_tell_is_a_skip() -> None:
    class Unsure(FakeLab):
        def oracle_undecided(self, outcome: Outcome) -> bool:
            return True

    told = decide(Unsure(fault=None), PROBE, replace(HANG, signature=Signature(kind="check", type="exit 1")))
    assert told.verdict is Verdict.SKIP


def test_a_build_whose_runs_cannot_be_recorded_is_judged_by_the_plain_one() -> None:
    refused = Outcome(status=Status.REFUSED, notes=("the lab could not prepare this run",))
    wanted = TargetFailure(
        signature=Signature(kind="exception", type="ValueError", message="boom"), compiled=False
    )

    def fails(probe: Probe) -> Outcome | None:
        return failing() if probe.bare else refused if probe.rung is Rung.KERNEL else None

    told = decide(lab(fails), PROBE, wanted)
    assert told.verdict is Verdict.BAD
    assert "plain run alone" in told.why


def test_a_flaky_failure_that_was_not_seen_often_enough_is_not_called_good() -> None:
    rare = TargetFailure(
        signature=Signature(kind="exception", type="ValueError", message="boom"),
        tally=Tally(runs=100, failures=1),
        verdicts=5,
    )
    told = decide(lab(lambda probe: None), PROBE, rare)
    assert told.verdict is Verdict.SKIP
    assert "too few" in told.why
