"""The target of a reduction: fail in the same way on one rung and pass on the rung below it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accel_lab.core.findings import Culprit, Step
from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe
from accel_lab.core.record import Record
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reduction.graph.emit import DIFFERS
from accel_lab.search.bisection import Pair
from accel_lab.search.lab import Difference, Lab
from accel_lab.search.ladder import read
from accel_lab.search.ladder_runner import Switches
from accel_lab.search.premise import Baseline, values_signature
from accel_lab.search.repeats import cautious_rate, runs_to_see

#: The failure of a program that itself compares the compiled result with the uncompiled one.
VALUES_DIFFER = Signature(kind="exception", type="AssertionError", message=normalise(DIFFERS))

#: Factor by which the greatest error of silently wrong values may shrink during the reduction.
ERROR_SHRINKS = 100.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """``bad`` must fail with ``signature`` within ``attempts`` runs, ``good`` must pass ``passes`` runs.

    ``good`` is None if the uncompiled script fails, so that no rung is below. ``error`` is the greatest
    absolute error that was recorded, for signatures of kind ``values``. ``early`` means that the failure
    comes before the native compiler starts: a run that gets there does not fail in this way, and is stopped.
    ``bad_with`` and ``good_with`` are the switches of the two runs if they set up an accelerator; ``without``
    says what the second one replaces.
    """

    signature: Signature
    bad: Rung
    good: Rung | None = None
    attempts: int = 1
    passes: int = 1
    error: float | None = None
    early: bool = False
    bad_with: Switches = ()
    good_with: Switches = ()
    without: str = ""


def target_of(
    base: Baseline, ladder: Sequence[Step], culprit: Culprit | None, pair: Pair | None = None
) -> tuple[Target | None, str]:
    """Returns the target, or None and why there is none; ``pair`` are the isolating runs, if known."""
    if base.target is None:
        return None, "the script does not fail"
    if culprit is not None and culprit.stage is Stage.ENVIRONMENT:
        return None, "the environment is at fault, not the script: there is nothing to minimize"
    if base.hidden and pair is None:
        return None, "the failure disappears under instrumentation, which minimizing needs"
    if base.in_processes:
        return (
            None,
            "the failure is in a child process; only the script's own code can be minimized",
        )
    attempts = passes = 1
    if base.flaky:
        rate = cautious_rate(base.tally, 0.2)
        if rate < 0.3:
            return (
                None,
                "the failure rate is too low: a passing candidate may be chance",
            )
        attempts = runs_to_see(rate, 0.1)
        passes = attempts
    reading = read([(s.rung, s.verdict) for s in ladder if s.rung is not Rung.META])
    errors = [d.comparison.max_abs_error for d in base.values if d.comparison.max_abs_error is not None]
    target = Target(
        signature=base.target,
        bad=Rung.KERNEL,
        attempts=attempts,
        passes=passes,
        error=max((e for e in errors if math.isfinite(e)), default=None),
    )
    if pair is not None:
        (bad, bad_with), (good, good_with) = pair.bad, pair.good or (None, ())
        with_both = replace(target, bad_with=bad_with, good_with=good_with, without=pair.without)
        return replace(with_both, bad=bad, good=good), ""
    if culprit is not None and culprit.stage is Stage.EAGER:
        same = bool(ladder) and ladder[0].rung is Rung.UNCOMPILED and ladder[0].verdict is Verdict.BAD
        return replace(target, bad=Rung.UNCOMPILED if same else Rung.KERNEL), ""
    if reading.first_bad is None or reading.last_good is None:
        return target, ""
    return replace(target, bad=reading.first_bad, good=reading.last_good), ""


@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """A candidate's verdicts on both rungs; None if a rung was not run.

    ``stopped`` means that the run was stopped at the native compiler; it might pass.
    """

    bad: Verdict
    good: Verdict | None = None
    stopped: bool = False

    @property
    def interesting(self) -> bool:
        return self.bad is Verdict.BAD and self.good in (None, Verdict.GOOD)


def ask(lab: Lab, probe: Probe, target: Target) -> tuple[Answer, list[Outcome]]:
    """Tests the program of ``probe`` against the target; also returns all outcomes, for their folders."""
    outcomes: list[Outcome] = []
    judging = _Judging(lab, probe, target, outcomes)
    bad = judging.verdict(target.bad, _bad_switches(target), target.attempts)
    if bad is not Verdict.BAD or target.good is None:
        stopped = target.early and bool(outcomes) and outcomes[-1].status is Status.NOT_APPLICABLE
        return Answer(bad=bad, stopped=stopped), outcomes
    good = judging.verdict(target.good, target.good_with, target.passes)
    return Answer(bad=bad, good=good), outcomes


def _bad_switches(target: Target) -> Switches:
    return (("before_compiler", True),) if target.early else target.bad_with


class _Judging:
    def __init__(self, lab: Lab, probe: Probe, target: Target, outcomes: list[Outcome]) -> None:
        self._lab = lab
        self._probe = probe
        self._target = target
        self._outcomes = outcomes
        self._references: tuple[Outcome, Outcome | None] | None = None
        if target.signature.kind == "values":
            lab.use_fixed_seed()

    def verdict(self, rung: Rung, switches: Switches, runs: int) -> Verdict:
        """Returns the verdict of up to ``runs`` runs; the first failing or skipped one ends them."""
        verdict = Verdict.SKIP
        for attempt in range(runs):
            verdict = self._one(rung, switches, attempt)
            if verdict in (Verdict.BAD, Verdict.SKIP):
                break
        return verdict

    def _run(self, rung: Rung, switches: Switches, attempt: int = 0) -> Outcome:
        probe = replace(self._probe, rung=rung, switches=switches, attempt=attempt)
        outcome = self._lab.submit(probe).result()
        self._outcomes.append(outcome)
        return outcome

    def _one(self, rung: Rung, switches: Switches, attempt: int) -> Verdict:
        outcome = self._run(rung, switches, attempt)
        if self._lab.oracle_undecided(outcome):
            return Verdict.SKIP
        signature = self._lab.signature(outcome)
        if self._target.signature.kind != "values":
            return judge(outcome, self._target.signature, signature)
        if not outcome.was_run:
            return Verdict.SKIP
        return Verdict.DIFFERENT if signature is not None else self._values(outcome)

    def _values(self, outcome: Outcome) -> Verdict:
        """Judges silently wrong values against the candidate's own uncompiled run and its float64 twin."""
        if self._references is None:
            plain = self._run(Rung.UNCOMPILED, self._target.bad_with)
            if plain.status is not Status.OK or self._lab.agreement(outcome, plain) is not None:
                return Verdict.SKIP if plain.status is not Status.OK else Verdict.GOOD
            twin = self._run(Rung.UNCOMPILED, (("shadow", True), *self._target.bad_with))
            self._references = (plain, twin if twin.status is Status.OK else None)
        different = self._lab.differences(outcome, *self._references)
        if not different:
            return Verdict.GOOD
        return Verdict.BAD if self._alike(different) else Verdict.DIFFERENT

    def _alike(self, different: Sequence[Difference]) -> bool:
        """Whether the values are wrong in the same way, with an error too large for mere rounding."""
        if values_signature(different).type not in self._target.signature.type:
            return False
        if self._target.error is None:
            return True
        errors = [d.comparison.max_abs_error for d in different if d.comparison.max_abs_error is not None]
        return any(e != e or e >= self._target.error / ERROR_SHRINKS for e in errors)


def stops_early(lab: Lab, probe: Probe, target: Target) -> Target:
    """Returns the target with ``early`` set if the program fails before the native compiler starts."""
    if target.bad is not Rung.KERNEL or target.signature.kind != "exception":
        return target
    early = replace(target, early=True)
    answer, _ = ask(lab, probe, replace(early, good=None))
    return early if answer.bad is Verdict.BAD else target


def tolerances_for(error: float) -> tuple[tuple[float, float], ...]:
    """Returns ``(rtol, atol)`` pairs to compare with, the most generous first, for a greatest absolute error.

    ``atol`` is at least a hundredth of the error, rounded to one digit, so that other rounding does not count
    as the fault.
    """
    return tuple((rtol, float(f"{error / part:.0e}")) for rtol, part in ((1e-2, 10), (1e-4, 100)))


def limits_for(limits: Limits, seconds: float, target: Target) -> Limits:
    """Returns the limits of a candidate: it needs no more time than the whole program did."""
    if target.signature.kind == "timeout":
        return replace(limits, timeout_s=min(limits.timeout_s, max(20.0, limits.timeout_s / 10)))
    return replace(limits, timeout_s=min(limits.timeout_s, 20.0 + 3 * seconds))
