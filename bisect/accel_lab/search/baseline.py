"""Proves the premise: does the script fail, always or now and then, and is it the same failure warm?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from accel_lab.core.findings import Step
from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict

from .lab import Lab
from .memory_fault import checked_runs, is_memory_fault, one_fault, with_checks
from .premise import INSTRUMENTATION, LAB_FAILURE, STATE, Baseline, hurried, same_failure, values_verdict
from .repeats import Tally
from .silent import compare_silent

#: After so many passes the runs before them are told as state that was left behind.
_PASSES_AFTER_ONE = 10
_PASSES_AFTER_TWO = 6


class BaselineSearch:
    """Runs the script cold, plain and recorded, then warm, and as often as a doubt demands."""

    def __init__(self, lab: Lab, probe: Probe, *, most_runs: int = 12) -> None:
        self._lab = lab
        self._probe = probe
        self._most = most_runs

    def run(self) -> Baseline:
        """The baseline; ``target`` is None where the script does not fail."""
        found = self._prove()
        found.notes = one_fault(found.notes, [step.signature for step in found.steps])
        return found

    def _prove(self) -> Baseline:
        found = self.look(meanwhile=self._lab.warm_up)
        if found.target is None:
            self._once_more(found)
        elif (
            found.target.kind != "values"
            and sum(step.signature is not None for step in found.steps) == 1
            and not self._sides_differ(found)
        ):
            self._measure_or_check(found)
        return found

    def _sides_differ(self, found: Baseline) -> bool:
        """One of the plain and the recorded run failed: is it so each time? Then that is no chance.

        Where only the plain run fails, looking at it hides the failure; where only the recorded one does, the
        lab makes it.
        """
        shown_by_plain = found.steps[0].signature is not None
        # That the lab makes a failure is said of itself, and ends the search: it takes more to say so.
        rounds = [(1, 2)] if shown_by_plain else [(1, 2), (3, 4)]
        apart, runs = True, 1
        for attempts in rounds:
            if apart:
                apart = self._stay_apart(found, attempts, shown_by_plain)
                runs += len(attempts)
        if not apart:
            return False
        found.tally = Tally(runs=runs, failures=runs)  # the other runs say nothing of how often it comes
        if shown_by_plain:
            found.contest(
                INSTRUMENTATION,
                "the plain run failed each time (3 of 3) and the recorded one never (0 of 3): "
                "instrumentation hides the failure",
            )
        else:
            found.contest(
                LAB_FAILURE,
                f"the plain run passed each time ({runs} of {runs}), the recorded one failed each time: the "
                "failure comes from what the lab changes in order to look, not from the script",
            )
        return True

    def _stay_apart(self, found: Baseline, attempts: tuple[int, ...], shown_by_plain: bool) -> bool:
        """Whether runs of both kinds again fail on the one side only, and there in the same way."""
        probes = [
            replace(self._probe, bare=bare, cold=True, attempt=n) for n in attempts for bare in (True, False)
        ]
        jobs = [(probe.bare, self._lab.submit(probe)) for probe in probes]
        apart = True
        for bare, job in jobs:
            outcome = job.result()
            signature = self._lab.signature(outcome)
            fails = bare is shown_by_plain
            apart &= same_failure(found.target, signature) if fails else signature is None
            self._add(found, outcome, signature, "plain run" if bare else "recorded run")
        return apart

    def _is_state(self, found: Baseline) -> bool:
        """Whether the first runs failed and none ever after: they left something behind, or it was chance.

        Two failures before six passes are chance in at most one of eighty scripts that fail now and then.
        """
        told = [step for step in found.steps if step.verdict in (Verdict.GOOD, Verdict.BAD)]
        first = next((n for n, step in enumerate(told) if step.verdict is Verdict.GOOD), len(told))
        later = told[first:]
        enough = _PASSES_AFTER_ONE if first == 1 else _PASSES_AFTER_TWO
        if first == 0 or len(later) < enough or any(step.verdict is Verdict.BAD for step in later):
            return False
        rare = ", unless the failure is a rare one" if first == 1 else ""
        found.contest(
            STATE,
            f"the first {first} of {len(told)} runs failed and none of the {len(later)} after them: what the "
            "first ones left behind outside the script's folder (a file, a cache, a database) keeps it from "
            f"failing again{rare}, so it cannot be bisected until every run starts from the same state",
        )
        return True

    def look(self, meanwhile: Callable[[], None] = lambda: None, *, silent: bool = True) -> Baseline:
        """The two cold runs and, for a script that ends well, its recorded values (if ``silent``).

        ``meanwhile`` is done while they run. Nothing is repeated, whatever they say.
        """
        found = Baseline()
        lab, probe = self._lab, self._probe
        plain_job = lab.submit(replace(probe, bare=True, cold=True))
        cold_job = lab.submit(replace(probe, cold=True))
        meanwhile()
        plain, cold = plain_job.result(), cold_job.result()
        signatures = [lab.signature(plain), lab.signature(cold)]
        if plain.status is Status.NOT_APPLICABLE or cold.status is Status.REFUSED:
            found.contest("premise", "; ".join(cold.notes) or "the lab could not prepare the run")
        found.target = signatures[1] or signatures[0]
        self._add(found, plain, signatures[0], "plain run")
        self._add(found, cold, signatures[1], "recorded run")
        failing = [s for s in signatures if s is not None]
        if len(failing) == 2 and not same_failure(*signatures):
            found.notes.append(
                f"the plain run failed in another way ({signatures[0].line if signatures[0] else ''}) "
                "than the recorded one"
            )
            found.contest("premise", "two runs of the unchanged script failed in two different ways")
        if silent and not failing:
            compare_silent(lab, probe, found, cold)
        return found

    def warm(self, found: Baseline) -> None:
        """The gate of the warm server: it is used only if it shows the same failure as the cold run."""
        self._pass_gate(found)
        found.notes = one_fault(found.notes, [step.signature for step in found.steps])

    def _pass_gate(self, found: Baseline) -> None:
        lab = self._lab
        if found.unchecked is None:
            self._check(found)
        if not lab.is_warm or found.target is None:
            return
        known_flaky = found.flaky
        _, verdict = self._ask_again(found, attempt=0)
        if verdict is Verdict.BAD or not lab.is_warm:
            return
        if not known_flaky:
            # One disagreement: is the failure flaky, or does warmth hide it? More runs of both kinds tell.
            again = [self._ask_again(found, attempt=n)[1] for n in (1, 2, 3)]
            if all(v is not Verdict.BAD for v in again):
                self._cold_again(found)
                if self._is_state(found):
                    return
                lab.go_cold()
                found.notes.append(
                    "in a warm process the script behaves differently, so every run is made in a fresh one"
                )
                found.drop_warm()
                return
        self._measure(found)

    def _cold_again(self, found: Baseline) -> None:
        """Does it not fail any more, in whatever process? Runs that fail again say nothing new."""
        for bare in (True, False):
            probe = hurried(replace(self._probe, bare=bare, cold=True, attempt=4), found.target)
            outcome = self._lab.submit(probe).result()
            signature = self._lab.signature(outcome)
            if signature is not None or found.target is None or found.target.kind == "values":
                return
            self._add(found, outcome, signature, "plain run" if bare else "recorded run")

    def _ask_again(self, found: Baseline, attempt: int) -> tuple[Outcome, Verdict]:
        outcome = self._lab.submit(hurried(self._probe.again(attempt), found.target)).result()
        verdict = self.verdict(found, outcome)
        signature = self._lab.signature(outcome)
        self._add(found, outcome, signature, "warm run" if outcome.warm else "cold run", verdict)
        return outcome, verdict

    def verdict(self, found: Baseline, outcome: Outcome) -> Verdict:
        """The verdict of one more run against the target."""
        assert found.target is not None
        if self._lab.cannot_tell(outcome):
            return Verdict.SKIP
        if found.target.kind == "values":
            return values_verdict(self._lab, found, outcome)
        return judge(outcome, found.target, self._lab.signature(outcome))

    def _add(
        self,
        found: Baseline,
        outcome: Outcome,
        signature: Signature | None,
        label: str,
        verdict: Verdict | None = None,
    ) -> None:
        if verdict is None:
            verdict = Verdict.GOOD if signature is None else Verdict.BAD
        found.keep(
            Step(
                rung=Rung.KERNEL,
                label=label,
                verdict=verdict,
                outcome=outcome,
                signature=signature,
                failures=int(verdict is Verdict.BAD),
            )
        )

    def _once_more(self, found: Baseline) -> None:
        """Nothing failed in two cold runs. A third one, warm, costs little and may be the failing one."""
        lab = self._lab
        for attempt in (1, 2, 3):
            outcome = lab.submit(self._probe.again(attempt)).result()
            signature = lab.signature(outcome)
            if signature is not None:
                found.target = signature
                self._add(found, outcome, signature, "warm run" if outcome.warm else "cold run")
                self._measure_or_check(found)
                return
            self._add(found, outcome, None, "warm run" if outcome.warm else "cold run")

    def _measure_or_check(self, found: Baseline) -> None:
        if not self._check(found):
            self._measure(found)

    def _check(self, found: Baseline) -> bool:
        """Let the allocator check the heap, where that makes a memory fault show each time."""
        if not is_memory_fault(found.target):
            return False
        outcomes = checked_runs(
            self._lab, self._probe, partial(self.verdict, found), runs=2 if found.flaky else 1
        )
        if outcomes is None:
            return False
        found.unchecked, found.tally = found.tally, Tally()
        found.notes.append(with_checks(found.unchecked))
        for outcome in outcomes:
            label = "warm run" if outcome.warm else "cold run"
            self._add(found, outcome, self._lab.signature(outcome), f"{label}, heap checked", Verdict.BAD)
        return True

    def _measure(self, found: Baseline) -> None:
        """Some runs fail and some do not: ask often enough to know how often."""
        found.notes.append("the script fails on some runs only")
        while found.tally.runs < self._most:
            before = found.tally.runs
            jobs = [self._lab.submit(self._probe.again(10 + before + n)) for n in range(2)]
            for job in jobs:
                outcome = job.result()
                verdict = self.verdict(found, outcome)
                label = "warm run" if outcome.warm else "cold run"
                self._add(found, outcome, self._lab.signature(outcome), label, verdict)
            if found.tally.runs == before:
                break
        self._is_state(found)
