"""Runs the rungs of the ladder, each as often as the failure's rate requires."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from accel_lab.core.errors import OutOfTime
from accel_lab.core.findings import Step
from accel_lab.core.judge import compiler_exceptions
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Rung
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .lab import Lab
from .premise import Baseline, run_verdict, with_short_timeout
from .repeats import Tally, cautious_rate, runs_to_see

Switches = tuple[tuple[str, Any], ...]


@dataclass(kw_only=True)
class LadderRunner:
    """Runs probes of one failing program, and counts them.

    ``held`` are switches that every question carries, such as regions that stay on a good rung. A hang costs
    the whole time limit, so if the failure is a hang a run waits only a tenth of it unless
    ``full_time_limit`` is set, as it is for decisive runs.
    """

    lab: Lab
    probe: Probe
    baseline: Baseline
    budget: float = 0.01
    held: Switches = ()
    full_time_limit: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    _failed: int = 0

    @property
    def failing(self) -> Tally:
        """The runs that contain the fault: the baseline's, and all failed runs since."""
        return self.baseline.tally.plus(Tally(runs=self._failed, failures=self._failed))

    def ask(self, questions: Iterable[tuple[Rung, Switches]], kind: str = "ladder") -> list[Step]:
        """Returns one Step per question; questions run in parallel and repeat as the failure's rate requires.

        Raises :class:`OutOfTime` if one of them does not fit into the time left.
        """
        wanted = [(rung, tuple(dict(self.held + switches).items())) for rung, switches in questions]
        first = [(rung, switches, self._submit(rung, switches, 0, kind)) for rung, switches in wanted]
        steps = [self._step(rung, switches, job.result()) for rung, switches, job in first]
        return [self._repeated(step, kind) for step in steps]

    def ask_in_time(self, rungs: Iterable[Rung]) -> tuple[list[Step], list[Rung]]:
        """Returns the steps of the rungs that time allowed, and the other rungs.

        A rung whose pass could not be repeated often enough counts among the others.
        """
        wanted, kind = tuple(dict(self.held).items()), "ladder"
        steps, unasked = [], []
        for rung, job in [(rung, self._submit(rung, wanted, 0, kind)) for rung in rungs]:
            try:
                steps.append(self._repeated(self._step(rung, wanted, job.result()), kind))
            except OutOfTime:
                unasked.append(rung)
        return steps, unasked

    def _repeated(self, step: Step, kind: str) -> Step:
        """Returns the step with the repeats that it needs to be called good."""
        if not self.baseline.flaky or step.verdict not in (Verdict.GOOD, Verdict.DIFFERENT):
            return step
        return self.repeat(step, self._repeats(), kind, until_bad=True)

    def one(self, rung: Rung, switches: Switches = (), kind: str = "ladder") -> Step:
        """Asks a single question."""
        return self.ask([(rung, switches)], kind)[0]

    def look(self, rung: Rung, switches: Switches, kind: str) -> Outcome:
        """Makes one run for its facts only; it gives no verdict, so it is not repeated."""
        outcome = self._submit(rung, tuple(dict(self.held + switches).items()), 0, kind).result()
        self.lab.time_budget.spend(outcome.seconds)
        return outcome

    def repeat(self, step: Step, runs: int, kind: str, until_bad: bool = False) -> Step:
        """Repeats a question up to ``runs`` more times; the step keeps its first failing outcome."""
        switches = step.settings
        attempt = step.runs
        while runs > 0:
            batch = min(2, runs)
            jobs = [self._submit(step.rung, switches, attempt + n, kind) for n in range(batch)]
            attempt, runs = attempt + batch, runs - batch
            for job in jobs:
                step = _merge(step, self._step(step.rung, switches, job.result()))
            if until_bad and step.verdict is Verdict.BAD:
                break
        return step

    def _repeats(self) -> int:
        """Returns how many more passes a rung needs to be called good, at the measured failure rate."""
        return runs_to_see(cautious_rate(self.baseline.tally, 0.2), self.budget / 8) - 1

    def _submit(self, rung: Rung, switches: Switches, attempt: int, kind: str) -> Future[Outcome]:
        self.lab.time_budget.check()
        self.counts[kind] = self.counts.get(kind, 0) + 1
        probe = replace(self.probe, rung=rung, switches=switches, attempt=attempt)
        return self.lab.submit(
            probe if self.full_time_limit else with_short_timeout(probe, self.baseline.target)
        )

    def _step(self, rung: Rung, switches: Switches, outcome: Outcome) -> Step:
        self.lab.time_budget.spend(outcome.seconds)
        signature = self.lab.signature(outcome)
        verdict = self.verdict(outcome)
        self._failed += verdict is Verdict.BAD
        error = None
        if self.baseline.uncompiled is not None and rung is not Rung.UNCOMPILED and not outcome.notes:
            different = self.lab.differences(outcome, self.baseline.uncompiled, self.baseline.reference)
            errors = [d.comparison.max_abs_error for d in different if d.comparison.max_abs_error is not None]
            error = max(errors, default=None)
        return Step(
            rung=rung,
            settings=switches,
            verdict=verdict,
            outcome=outcome,
            signature=signature or (self.baseline.target if verdict is Verdict.BAD else None),
            max_abs_error=error,
            failures=int(verdict is Verdict.BAD),
            note=shorten("; ".join(outcome.notes), 300),
        )

    def verdict(self, outcome: Outcome) -> Verdict:
        """Returns what the outcome means for the failure that is looked for."""
        verdict = run_verdict(self.lab, self.baseline, outcome)
        # A script that expects an exception may catch the compiler's own instead; that is not a fix.
        if verdict is Verdict.GOOD and compiler_exceptions(outcome) - self._caught_at_first():
            return Verdict.DIFFERENT
        return verdict

    def _caught_at_first(self) -> set[str]:
        """Returns the compiler's own exceptions that the unchanged script caught."""
        return {name for step in self.baseline.steps for name in compiler_exceptions(step.outcome)}


def _merge(one: Step, two: Step) -> Step:
    """Merges two runs of one question; a failure takes precedence over a pass."""
    order = (Verdict.BAD, Verdict.DIFFERENT, Verdict.GOOD, Verdict.SKIP)
    kept = one if order.index(one.verdict) <= order.index(two.verdict) else two
    return replace(kept, runs=one.runs + two.runs, failures=one.failures + two.failures)


def tally_of(steps: Iterable[Step]) -> Tally:
    """Returns the total of all runs of some steps."""
    total = Tally()
    for step in steps:
        total = total.plus(Tally(runs=step.runs, failures=step.failures))
    return total
