"""Proves the premise: the script fails, always or on some runs, and in the same way when warm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict

from .lab import Lab
from .memory_fault import checked_runs, is_memory_fault, one_fault, with_checks
from .premise import (
    INSTRUMENTATION,
    LAB_FAILURE,
    NOT_RECORDED,
    STATE,
    Baseline,
    run_verdict,
    same_failure,
    unrecorded,
    with_short_timeout,
)
from .repeats import Tally
from .silent import compare_silent

#: Number of passes after which earlier failures are attributed to state left behind.
_PASSES_AFTER_ONE = 10
_PASSES_AFTER_TWO = 6


class BaselineSearch:
    """Runs the script cold (plain and recorded), then warm, and repeats it while runs disagree."""

    def __init__(self, lab: Lab, probe: Probe, *, most_runs: int = 12) -> None:
        self._lab = lab
        self.probe = probe
        self._most = most_runs
        self.baseline = Baseline()

    def run(self) -> Baseline:
        """Returns the baseline; ``target`` is None if the script does not fail.

        If recording hides or causes the failure, ``probe`` does not record from then on.
        """
        baseline = self._prove()
        if baseline.unlike_plain and self._shows_without_recording(baseline):
            self.probe = unrecorded(self.probe)
            baseline = self._prove()
            baseline.notes.append(NOT_RECORDED)
        baseline.notes = one_fault(baseline.notes, [step.signature for step in baseline.steps])
        return baseline

    def _shows_without_recording(self, baseline: Baseline) -> bool:
        """Whether an instrumented run without recording ends as the plain run does."""
        outcome = self._lab.submit(unrecorded(replace(self.probe, cold=True))).result()
        return same_failure(baseline.steps[0].signature, self._lab.signature(outcome))

    def _prove(self) -> Baseline:
        baseline = self.first_runs(meanwhile=self._lab.warm_up)
        if baseline.target is None:
            self._once_more(baseline)
        elif (
            baseline.target.kind != "values"
            and sum(step.signature is not None for step in baseline.steps) == 1
            and not self._sides_differ(baseline)
        ):
            self._measure_or_check(baseline)
        return baseline

    def _sides_differ(self, baseline: Baseline) -> bool:
        """Whether plain and recorded runs differ every time, so that chance is ruled out.

        If only the plain run fails, instrumentation hides the failure; if only the recorded one fails, the
        lab causes it.
        """
        shown_by_plain = baseline.steps[0].signature is not None
        # A failure caused by the lab ends the search, so that claim needs twice the runs.
        rounds = [(1, 2)] if shown_by_plain else [(1, 2), (3, 4)]
        apart, runs = True, 1
        for attempts in rounds:
            if apart:
                apart = self._stay_apart(baseline, attempts, shown_by_plain)
                runs += len(attempts)
        if not apart:
            return False
        baseline.tally = Tally(runs=runs, failures=runs)  # the others are no estimate of the rate
        if shown_by_plain:
            baseline.add_doubt(INSTRUMENTATION, Evidence.of(EvidenceKind.INSTRUMENTATION_HIDES))
        else:
            baseline.add_doubt(LAB_FAILURE, Evidence.of(EvidenceKind.LAB_MAKES_FAILURE, runs=runs))
        return True

    def _stay_apart(self, baseline: Baseline, attempts: tuple[int, ...], shown_by_plain: bool) -> bool:
        """Whether more runs of both kinds again fail on the one side only, in the same way."""
        probes = [
            replace(self.probe, bare=bare, cold=True, attempt=n) for n in attempts for bare in (True, False)
        ]
        jobs = [(probe.bare, self._lab.submit(probe)) for probe in probes]
        apart = True
        for bare, job in jobs:
            outcome = job.result()
            signature = self._lab.signature(outcome)
            fails = bare is shown_by_plain
            apart &= same_failure(baseline.target, signature) if fails else signature is None
            self._add(baseline, outcome, signature, "plain run" if bare else "recorded run")
        return apart

    def _is_state(self, baseline: Baseline) -> bool:
        """Whether only the first runs failed: they left state behind, or it was chance.

        Two failures before six passes are chance for at most one in eighty scripts that fail intermittently.
        """
        judged = [step for step in baseline.steps if step.verdict in (Verdict.GOOD, Verdict.BAD)]
        first = next((n for n, step in enumerate(judged) if step.verdict is Verdict.GOOD), len(judged))
        later = judged[first:]
        enough = _PASSES_AFTER_ONE if first == 1 else _PASSES_AFTER_TWO
        if first == 0 or len(later) < enough or any(step.verdict is Verdict.BAD for step in later):
            return False
        why = Evidence.of(EvidenceKind.STATE_LEFT_BEHIND, first=first, runs=len(judged), later=len(later))
        baseline.add_doubt(STATE, why)
        return True

    def first_runs(self, meanwhile: Callable[[], None] = lambda: None, *, silent: bool = True) -> Baseline:
        """Makes the two cold runs and, for a passing script with ``silent``, compares its recorded values.

        ``meanwhile`` is called while they run. No run is repeated.
        """
        baseline = self.baseline = Baseline()
        lab, probe = self._lab, self.probe
        with lab.time_budget.without_deadline():
            plain_job = lab.submit(replace(probe, bare=True, cold=True))
            cold_job = lab.submit(replace(probe, cold=True))
        meanwhile()
        plain, cold = plain_job.result(), cold_job.result()
        signatures = [lab.signature(plain), lab.signature(cold)]
        if plain.status is Status.NOT_APPLICABLE or cold.status is Status.REFUSED:
            said = "; ".join(cold.notes)
            unsaid = Evidence.of(EvidenceKind.RUN_NOT_PREPARED)
            baseline.add_doubt("premise", Evidence.said(said) if said else unsaid)
        baseline.target = signatures[1] or signatures[0]
        self._add(baseline, plain, signatures[0], "plain run")
        self._add(baseline, cold, signatures[1], "recorded run")
        failing = [s for s in signatures if s is not None]
        if len(failing) == 2 and not same_failure(*signatures):
            baseline.notes.append(
                f"the plain run failed in another way ({signatures[0].line if signatures[0] else ''}) "
                "than the recorded one"
            )
            baseline.add_doubt("premise", Evidence.of(EvidenceKind.FAILS_IN_TWO_WAYS))
        if silent and not failing and probe.limits.record_mb:
            compare_silent(lab, probe, baseline, cold)
        return baseline

    def warm(self, baseline: Baseline) -> None:
        """Enables the warm server only if it shows the same failure as the cold run."""
        self._pass_gate(baseline)
        baseline.notes = one_fault(baseline.notes, [step.signature for step in baseline.steps])

    def _pass_gate(self, baseline: Baseline) -> None:
        lab = self._lab
        if baseline.unchecked is None:
            self._check(baseline)
        if not lab.is_warm or baseline.target is None:
            return
        known_flaky = baseline.flaky
        _, verdict = self._ask_again(baseline, attempt=0)
        if verdict is Verdict.BAD or not lab.is_warm:
            return
        if not known_flaky:
            # The first disagreement: the failure is flaky or hidden in warm processes. More runs of both
            # kinds decide.
            again = [self._ask_again(baseline, attempt=n)[1] for n in (1, 2, 3)]
            if all(v is not Verdict.BAD for v in again):
                self._cold_again(baseline)
                if self._is_state(baseline):
                    return
                lab.go_cold()
                baseline.notes.append(
                    "in a warm process the script behaves differently, so every run is made in a fresh one"
                )
                baseline.drop_warm()
                return
        self._measure(baseline)

    def _cold_again(self, baseline: Baseline) -> None:
        """Makes two cold runs to see whether the failure is gone in every process; a failure ends it."""
        for bare in (True, False):
            probe = with_short_timeout(replace(self.probe, bare=bare, cold=True, attempt=4), baseline.target)
            outcome = self._lab.submit(probe).result()
            signature = self._lab.signature(outcome)
            if signature is not None or baseline.target is None or baseline.target.kind == "values":
                return
            self._add(baseline, outcome, signature, "plain run" if bare else "recorded run")

    def _ask_again(self, baseline: Baseline, attempt: int) -> tuple[Outcome, Verdict]:
        outcome = self._lab.submit(with_short_timeout(self.probe.again(attempt), baseline.target)).result()
        verdict = run_verdict(self._lab, baseline, outcome)
        signature = self._lab.signature(outcome)
        self._add(baseline, outcome, signature, "warm run" if outcome.warm else "cold run", verdict)
        return outcome, verdict

    def _add(
        self,
        baseline: Baseline,
        outcome: Outcome,
        signature: Signature | None,
        label: str,
        verdict: Verdict | None = None,
    ) -> None:
        if verdict is None:
            verdict = Verdict.GOOD if signature is None else Verdict.BAD
        baseline.keep(
            Step(
                rung=Rung.KERNEL,
                label=label,
                verdict=verdict,
                outcome=outcome,
                signature=signature,
                failures=int(verdict is Verdict.BAD),
            )
        )

    def _once_more(self, baseline: Baseline) -> None:
        """Makes up to three more runs, warm if possible, after two cold runs passed: one may fail."""
        lab = self._lab
        for attempt in (1, 2, 3):
            outcome = lab.submit(self.probe.again(attempt)).result()
            signature = lab.signature(outcome)
            if signature is not None:
                baseline.target = signature
                self._add(baseline, outcome, signature, "warm run" if outcome.warm else "cold run")
                self._measure_or_check(baseline)
                return
            self._add(baseline, outcome, None, "warm run" if outcome.warm else "cold run")

    def _measure_or_check(self, baseline: Baseline) -> None:
        if not self._check(baseline):
            self._measure(baseline)

    def _check(self, baseline: Baseline) -> bool:
        """Lets the allocator check the heap, if that makes a memory fault deterministic; returns whether."""
        if not is_memory_fault(baseline.target):
            return False
        outcomes = checked_runs(
            self._lab, self.probe, partial(run_verdict, self._lab, baseline), runs=2 if baseline.flaky else 1
        )
        if outcomes is None:
            return False
        baseline.unchecked, baseline.tally = baseline.tally, Tally()
        baseline.notes.append(with_checks(baseline.unchecked))
        for outcome in outcomes:
            label = "warm run" if outcome.warm else "cold run"
            self._add(baseline, outcome, self._lab.signature(outcome), f"{label}, heap checked", Verdict.BAD)
        return True

    def _measure(self, baseline: Baseline) -> None:
        """Estimates the failure rate of a script that fails on some runs only."""
        baseline.notes.append("the script fails on some runs only")
        while baseline.tally.runs < self._most:
            before = baseline.tally.runs
            jobs = [self._lab.submit(self.probe.again(10 + before + n)) for n in range(2)]
            for job in jobs:
                outcome = job.result()
                verdict = run_verdict(self._lab, baseline, outcome)
                label = "warm run" if outcome.warm else "cold run"
                self._add(baseline, outcome, self._lab.signature(outcome), label, verdict)
            if baseline.tally.runs == before:
                break
        self._is_state(baseline)
