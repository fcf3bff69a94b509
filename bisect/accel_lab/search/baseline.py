"""Proves the premise: does the script fail, always or now and then, and is it the same failure warm?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.findings import Step
from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .flaky import Tally
from .lab import Difference, Lab


def hurried(probe: Probe, target: Signature | None) -> Probe:
    """The probe with a tenth of its time limit (at least 20 s) where the failure is a hang.

    A hang costs the whole limit each time; only the runs that decide are given all of it.
    """
    if target is None or target.kind != "timeout":
        return probe
    limit = min(probe.limits.timeout_s, max(20.0, probe.limits.timeout_s / 10))
    return replace(probe, limits=replace(probe.limits, timeout_s=limit))


@dataclass(kw_only=True)
class Baseline:
    """What the unchanged script does. ``target`` is the failure that everything is judged against.

    ``hidden``: only the untouched script shows it, and each time.
    """

    steps: list[Step] = field(default_factory=list)
    target: Signature | None = None
    tally: Tally = field(default_factory=Tally)
    values: Sequence[Difference] = ()
    reference: Outcome | None = None
    uncompiled: Outcome | None = None
    notes: list[str] = field(default_factory=list)
    doubtful: str = ""
    hidden: bool = False

    @property
    def flaky(self) -> bool:
        """Whether some runs failed and others did not."""
        return 0 < self.tally.failures < self.tally.runs

    def keep(self, step: Step) -> None:
        """Add a run, and count it if it tells anything."""
        self.steps.append(step)
        self.tally = self.tally.plus(_counted([step]))

    def drop_warm(self) -> None:
        """Forget the runs in the warm process, and their count."""
        gone = _counted(step for step in self.steps if step.outcome.warm)
        self.steps = [step for step in self.steps if not step.outcome.warm]
        self.tally = Tally(runs=self.tally.runs - gone.runs, failures=self.tally.failures - gone.failures)


def _counted(steps: Iterable[Step]) -> Tally:
    """The runs that tell anything of how often it fails: another failure does not."""
    told = [step for step in steps if step.verdict in (Verdict.GOOD, Verdict.BAD)]
    return Tally(runs=len(told), failures=sum(step.failures for step in told))


def same_failure(plain: Signature | None, recorded: Signature | None) -> bool:
    """Whether a plain run and an instrumented one show the same failure.

    Of a plain run only the printed traceback is known, so an exit code is compared with an exit code
    and an exception by its type.
    """
    if plain is None or recorded is None:
        return plain is recorded
    if plain.kind == recorded.kind:
        return plain.type == recorded.type or plain.kind not in ("exception",)
    return {plain.kind, recorded.kind} <= {"exception", "exit", "memory"}


class BaselineSearch:
    """Runs the script cold, plain and recorded, then warm, and as often as a doubt demands."""

    def __init__(self, lab: Lab, probe: Probe, *, most_runs: int = 12) -> None:
        self._lab = lab
        self._probe = probe
        self._most = most_runs

    def run(self) -> Baseline:
        """The baseline; ``target`` is None where the script does not fail."""
        found = self.look(meanwhile=self._lab.warm_up)
        if found.target is None:
            self._once_more(found)
        elif (
            found.target.kind != "values"
            and sum(step.signature is not None for step in found.steps) == 1
            and not self._is_hidden(found)
        ):
            self._measure(found)
        return found

    def _is_hidden(self, found: Baseline) -> bool:
        """Only the plain run failed: is it so each time? Then it is not flaky, and looking at it hides it."""
        plain = found.steps[0]
        if plain.signature is None:
            return False
        probes = [
            replace(self._probe, bare=bare, cold=True, attempt=n) for n in (1, 2) for bare in (True, False)
        ]
        jobs = [(probe.bare, self._lab.submit(probe)) for probe in probes]
        apart = True
        for bare, job in jobs:
            outcome = job.result()
            signature = self._lab.signature(outcome)
            apart &= same_failure(plain.signature, signature) if bare else signature is None
            self._add(found, outcome, signature, "plain run" if bare else "recorded run")
        if apart:
            found.hidden = True
            found.tally = Tally(
                runs=3, failures=3
            )  # what hides the failure says nothing of how often it comes
            found.notes.append(
                "the plain run failed each time (3 of 3) and the recorded one never (0 of 3): what the lab "
                "changes in order to look hides the failure"
            )
        return apart

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
            found.doubtful = "; ".join(cold.notes) or "the lab could not prepare the run"
        found.target = signatures[1] or signatures[0]
        self._add(found, plain, signatures[0], "plain run")
        self._add(found, cold, signatures[1], "recorded run")
        failing = [s for s in signatures if s is not None]
        if len(failing) == 2 and not same_failure(*signatures):
            found.notes.append(
                f"the plain run failed in another way ({signatures[0].line if signatures[0] else ''}) "
                "than the recorded one"
            )
            found.doubtful = "two runs of the unchanged script failed in two different ways"
        if silent and not failing:
            self._silent(found, cold)
        return found

    def warm(self, found: Baseline) -> None:
        """The gate of the warm server: it is used only if it shows the same failure as the cold run."""
        lab = self._lab
        if not lab.is_warm or found.target is None:
            return
        _, verdict = self._ask_again(found, attempt=0)
        if verdict is Verdict.BAD or not lab.is_warm:
            return
        if not found.flaky:
            # One disagreement: is the failure flaky, or does warmth hide it? More runs of both kinds tell.
            again = [self._ask_again(found, attempt=n)[1] for n in (1, 2, 3)]
            if all(v is not Verdict.BAD for v in again):
                lab.go_cold()
                found.notes.append(
                    "in a warm process the script behaves differently, so every run is made in a fresh one"
                )
                found.drop_warm()
                return
        self._measure(found)

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
                self._measure(found)
                return
            self._add(found, outcome, None, "warm run" if outcome.warm else "cold run")

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
                return

    def _silent(self, found: Baseline, cold: Outcome) -> bool:
        """The script ends well: do its compiled regions return what they return uncompiled?"""
        lab, probe = self._lab, self._probe
        if not cold.facts.get("regions"):
            return False
        uncompiled = lab.submit(replace(probe, rung=Rung.UNCOMPILED)).result()
        found.uncompiled = uncompiled
        if lab.signature(uncompiled) is not None:
            found.notes.append("the script fails when nothing is compiled, and passes when it is")
            return False
        if not lab.differences(cold, uncompiled):
            return False
        reference = lab.submit(replace(probe, rung=Rung.UNCOMPILED, switches=(("shadow", True),))).result()
        found.reference = reference if reference.status is Status.OK else None
        different = lab.differences(cold, uncompiled, found.reference)
        if not different:
            return False
        if cold.facts.get("random", True) and self._only_random(found, uncompiled):
            found.notes.append(
                "compiled and uncompiled code draw other random numbers by design; with "
                "torch._inductor.config.fallback_random the results agree"
            )
            return False
        found.values = different
        found.target = values_signature(different)
        last = found.steps[-1]
        found.steps[-1] = replace(last, verdict=Verdict.BAD, failures=1, signature=found.target)
        # A plain run records nothing: it neither supports nor contradicts wrong numbers.
        found.steps[0] = replace(found.steps[0], note="ends well; wrong numbers are seen by recording only")
        found.tally = Tally(runs=1, failures=1)
        return True

    def _only_random(self, found: Baseline, uncompiled: Outcome) -> bool:
        aligned = self._lab.submit(
            replace(self._probe, switches=(("inductor", {"fallback_random": True}),))
        ).result()
        return aligned.status is Status.OK and not self._lab.differences(aligned, uncompiled, found.reference)


def values_signature(different: Sequence[Difference]) -> Signature:
    """The signature of silently wrong numbers: how they are wrong, and in which regions."""
    reasons = sorted({d.comparison.reason for d in different})
    places = sorted({f"{d.name}.{d.phase}" for d in different})
    return Signature(kind="values", type=" ".join(reasons), message=shorten(", ".join(places), 300))


def values_verdict(lab: Lab, found: Baseline, outcome: Outcome) -> Verdict:
    """The verdict of a run when wrong recorded values are what is looked for."""
    if outcome.status in (Status.REFUSED, Status.NOT_APPLICABLE):
        return Verdict.SKIP
    if lab.signature(outcome) is not None:
        return Verdict.DIFFERENT
    if found.uncompiled is None:
        return Verdict.SKIP
    different = lab.differences(outcome, found.uncompiled, found.reference)
    if not different:
        return Verdict.GOOD
    return Verdict.BAD if lab.same_differences(different, found.values) else Verdict.DIFFERENT
