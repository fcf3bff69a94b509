"""Judges one build of torch for the target failure: a few cold runs, a verdict, its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.findings import Step
from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.lab import Difference, Lab
from accel_lab.search.ladder_runner import LadderRunner, tally_of
from accel_lab.search.premise import Baseline, same_failure, with_short_timeout
from accel_lab.search.repeats import Tally
from accel_lab.search.timeline.repeat_policy import Patience

#: Additional runs of a build whose plain and recorded runs disagree, if the script is not known to be flaky.
DISAGREEING_RUNS = 4


@dataclass(frozen=True, kw_only=True)
class TargetFailure:
    """The failure that every build is judged for, as the failing build showed it.

    ``tally`` is its failure rate there; ``values`` are its differences if numbers are silently wrong.
    ``verdicts`` is the number of builds that an answer may rest on. ``eager``: it also occurs there
    uncompiled. ``compiled``: a compiled region was entered.
    """

    signature: Signature
    tally: Tally = field(default_factory=lambda: Tally(runs=1, failures=1))
    verdicts: int = 1
    values: Sequence[Difference] = ()
    eager: bool = False
    compiled: bool = True

    @property
    def flaky(self) -> bool:
        return self.patience().flaky

    def patience(self, budget: float = 0.05) -> Patience:
        """Returns how often a build is run before it may be called good."""
        return Patience(failing=self.tally, verdicts=self.verdicts, budget=budget)

    def as_premise(self, baseline: Baseline) -> Baseline:
        """Returns a copy of ``baseline``, another build's, that has this failure as its target."""
        return replace(
            baseline, target=self.signature, values=self.values, tally=self.tally, steps=list(baseline.steps)
        )


def target_from(base: Baseline, *, eager: bool) -> TargetFailure:
    """Returns the failure that a baseline found; its target must not be None."""
    assert base.target is not None
    compiled = any(step.outcome.facts.get("regions") for step in base.steps)
    return TargetFailure(
        signature=base.target,
        tally=base.tally,
        values=tuple(base.values),
        eager=eager,
        compiled=compiled,
    )


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Result for one build: the deciding run, the number of runs, and the reason if there is one."""

    verdict: Verdict
    outcome: Outcome
    signature: Signature | None = None
    why: str = ""
    runs: int = 1
    failures: int = 0
    error: float = 0.0


def decide(lab: Lab, probe: Probe, target: TargetFailure, *, budget: float = 0.05) -> Decision:
    """Judges the build that ``probe`` names.

    A build that fails in the same way uncompiled, where the failing build did not, is no evidence about the
    compiler: it is SKIP. So is a build on which the script cannot run at all.
    """
    if target.signature.kind == "timeout":
        return _without_eager_failure(lab, probe, target, _hang(lab, probe, target))
    silent = target.signature.kind == "values"
    baseline = BaselineSearch(lab, probe).first_runs(silent=silent)
    decision = _judge_values(lab, baseline, target) if silent else _judge_failure(lab, baseline, target)
    if decision.verdict is Verdict.GOOD and target.flaky:
        decision = _judge_flaky(lab, probe, target, baseline, decision, budget)
    elif not silent and _disagree(baseline, decision):
        decision = _once_more(lab, probe, target, baseline, decision)
    return _without_eager_failure(lab, probe, target, decision)


# -- what the two cold runs say --------------------------------------------------------------------


def _judge_failure(lab: Lab, baseline: Baseline, target: TargetFailure) -> Decision:
    """Judges a failure that the run shows, by the recorded run or, if that cannot run, the plain one."""
    plain, recorded = baseline.steps[0], baseline.steps[1]
    step, verdict = recorded, judge(recorded.outcome, target.signature, recorded.signature)
    why = ""
    if verdict is Verdict.SKIP:
        step, verdict = plain, _judged_plain(plain, target)
        why = "judged by the plain run alone: " + (
            "; ".join(recorded.outcome.notes) or "it cannot be recorded"
        )
    if lab.oracle_undecided(step.outcome):
        return Decision(verdict=Verdict.SKIP, outcome=step.outcome, why="the check cannot tell (125)", runs=2)
    if verdict is Verdict.GOOD and recorded.outcome.was_run and not _reached(recorded, target):
        verdict, why = Verdict.SKIP, "no compiled region was entered"
    return Decision(
        verdict=verdict,
        outcome=step.outcome,
        signature=step.signature,
        why=why or _why(verdict, step.signature),
        runs=2,
        failures=int(verdict is Verdict.BAD),
    )


def _judged_plain(plain: Step, target: TargetFailure) -> Verdict:
    if not plain.outcome.was_run:
        return Verdict.SKIP
    if plain.signature is None:
        return Verdict.GOOD
    return Verdict.BAD if same_failure(plain.signature, target.signature) else Verdict.DIFFERENT


def _judge_values(lab: Lab, baseline: Baseline, target: TargetFailure) -> Decision:
    """Judges silently wrong numbers against the build's own uncompiled run and its float64 reference."""
    recorded = baseline.steps[1]
    signature, why = baseline.target, ""
    if not recorded.outcome.was_run:
        verdict, why = Verdict.SKIP, "; ".join(recorded.outcome.notes) or "the run cannot be recorded"
    elif signature is not None and signature.kind == "values":
        same = lab.same_differences(baseline.values, target.values)
        verdict = Verdict.BAD if same else Verdict.DIFFERENT
        if not same:
            why = "its compiled regions return other wrong values: " + baseline.values[0].line
    elif signature is not None:
        verdict = Verdict.DIFFERENT
    elif not _reached(recorded, target):
        verdict, why = Verdict.SKIP, "no compiled region was entered"
    elif baseline.uncompiled is None or lab.signature(baseline.uncompiled) is not None:
        verdict, why = (
            Verdict.SKIP,
            "the script fails when nothing is compiled, so there is nothing to compare",
        )
    else:
        verdict = Verdict.GOOD
    runs = 2 + (baseline.uncompiled is not None) + (baseline.reference is not None)
    return Decision(
        verdict=verdict,
        outcome=recorded.outcome,
        signature=signature,
        why=why or _why(verdict, signature),
        runs=runs,
        failures=int(verdict is Verdict.BAD),
    )


def _reached(recorded: Step, target: TargetFailure) -> bool:
    return not target.compiled or bool(recorded.outcome.facts.get("regions"))


def _why(verdict: Verdict, signature: Signature | None) -> str:
    if verdict is Verdict.DIFFERENT and signature is not None:
        return f"fails in another way: {signature.line}"
    return ""


# -- more runs -------------------------------------------------------------------------------------


def _hang(lab: Lab, probe: Probe, target: TargetFailure) -> Decision:
    """Judges a hang: a run that ends within a tenth of the limit is good; otherwise it gets the whole limit.

    The short limit counts only in the warm server, as a cold run may need it for the imports alone.
    """
    lab.warm_up()
    outcome = lab.submit(with_short_timeout(probe, target.signature)).result()
    runs = 1
    verdict = judge(outcome, target.signature, lab.signature(outcome))
    if verdict is Verdict.BAD:
        outcome, runs = lab.submit(replace(probe, cold=True)).result(), 2
        verdict = judge(outcome, target.signature, lab.signature(outcome))
    signature = lab.signature(outcome)
    return Decision(
        verdict=verdict,
        outcome=outcome,
        signature=signature,
        why=_why(verdict, signature),
        runs=runs,
        failures=int(verdict is Verdict.BAD),
    )


def _judge_flaky(
    lab: Lab, probe: Probe, target: TargetFailure, baseline: Baseline, decision: Decision, budget: float
) -> Decision:
    """Judges an intermittent failure: a build is good after as many passes as the failure rate requires."""
    lab.warm_up()
    patience = target.patience(budget)
    # The runner's own repeats are for the ladder of one build; here all builds share the error budget.
    base = replace(target.as_premise(baseline), tally=Tally(runs=1, failures=1))
    runner = LadderRunner(lab=lab, probe=probe, baseline=base)
    step = runner.one(Rung.KERNEL, kind="versions")
    if step.verdict is Verdict.GOOD:
        step = runner.repeat(step, patience.passes - 1, "versions", until_bad=True)
    runs = Tally(runs=step.runs, failures=step.failures)
    if step.verdict is Verdict.GOOD:
        verdict = patience.verdict(runs)
        why = "" if verdict is Verdict.GOOD else f"passed {runs.runs} times: too few for so rare a failure"
        return replace(
            decision, verdict=verdict, why=why, runs=decision.runs + runs.runs, error=patience.error(runs)
        )
    return Decision(
        verdict=step.verdict,
        outcome=step.outcome,
        signature=step.signature,
        why=_why(step.verdict, step.signature),
        runs=decision.runs + runs.runs,
        failures=runs.failures,
    )


def _disagree(baseline: Baseline, decision: Decision) -> bool:
    """Whether exactly one of the plain and the recorded run failed."""
    if decision.verdict is Verdict.SKIP or not baseline.steps[1].outcome.was_run:
        return False
    return (baseline.steps[0].signature is None) is not (baseline.steps[1].signature is None)


def _once_more(
    lab: Lab, probe: Probe, target: TargetFailure, baseline: Baseline, decision: Decision
) -> Decision:
    """Makes more runs if the plain and recorded runs disagree, to see whether the failure is intermittent."""
    runner = LadderRunner(lab=lab, probe=probe, baseline=target.as_premise(baseline), full_time_limit=True)
    first = runner.one(Rung.KERNEL, kind="versions")
    more = runner.repeat(first, DISAGREEING_RUNS - 1, "versions")
    tally = tally_of([more]).plus(Tally(runs=decision.runs, failures=decision.failures))
    if decision.failures or more.verdict is Verdict.BAD:
        why = f"failed in {max(tally.failures, 1)} of {tally.runs} runs"
        outcome = decision.outcome if decision.failures else more.outcome
        return replace(
            decision,
            verdict=Verdict.BAD,
            outcome=outcome,
            signature=target.signature,
            why=why,
            runs=tally.runs,
            failures=tally.failures,
        )
    plain = baseline.steps[0]
    line = plain.signature.line if plain.signature is not None else "nothing"
    return replace(
        decision,
        verdict=Verdict.SKIP,
        why=f"the plain run failed ({line}), {tally.runs - 1} recorded runs did not",
        runs=tally.runs,
    )


def _without_eager_failure(lab: Lab, probe: Probe, target: TargetFailure, decision: Decision) -> Decision:
    """Reruns a failing build uncompiled; if that fails too, the compiler is not the cause: SKIP."""
    if target.eager or decision.verdict not in (Verdict.BAD, Verdict.DIFFERENT):
        return decision
    outcome = lab.submit(with_short_timeout(replace(probe, rung=Rung.UNCOMPILED), target.signature)).result()
    signature = lab.signature(outcome)
    if signature is None:
        return replace(decision, runs=decision.runs + 1)
    if decision.verdict is Verdict.BAD and not signature.same_as(target.signature):
        return replace(decision, runs=decision.runs + 1)
    how = "in the same way " if decision.verdict is Verdict.BAD else ""
    return replace(
        decision,
        verdict=Verdict.SKIP,
        signature=signature,
        outcome=outcome,
        why=f"the script fails {how}on this release with nothing compiled: {signature.line}",
        runs=decision.runs + 1,
    )
