"""The only maker of ``proven``: a pair of runs, repeated until luck is ruled out, and no open alternative.

A proof has two sides: runs that contain the culprit and fail, and runs that differ only by the culprit and
pass. Luck is bounded by a likelihood ratio (``repeats.doubt``), times the number of comparisons that the pair
was picked from (the union bound). Apart from luck, another part of the compiler may explain the pair: each
known way in which that happens is an alternative, and an open alternative keeps the verdict from being
proven.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit, Step
from accel_lab.core.stages import Confidence
from accel_lab.core.verdict import Verdict

from .ladder_runner import LadderRunner, tally_of
from .repeats import Tally, doubt, passes_needed

#: From the least to the most certain.
ORDER = (Confidence.INCONCLUSIVE, Confidence.LIKELY, Confidence.PROVEN)

#: Minimum runs of the passing side: one pass says little about an intermittent failure.
LEAST_PASSES = 2
#: Maximum passes for the proof of a stage, and of a component, which is not worth a long wait.
MOST_PASSES, MOST_COMPONENT_PASSES = 60, 6


@dataclass(frozen=True, kw_only=True)
class PairOfRuns:
    """Both sides of a proof.

    ``bad`` are the runs of the failing side, ``good`` those of the passing side, ``failing`` all runs that
    surely contain the culprit (including ``bad``). ``comparisons`` is the number of pairs that this one was
    picked from. ``held``: both sides kept their verdict when repeated. ``flaky``: the script is known to fail
    on some runs only, so a pass on the failing side is no surprise.
    """

    bad: Tally
    good: Tally
    failing: Tally
    comparisons: int = 1
    held: bool = True
    flaky: bool = False

    @classmethod
    def of(
        cls, bad: Step, good: Step, failing: Tally, *, comparisons: int = 1, flaky: bool = False
    ) -> PairOfRuns:
        """Builds the pair of two steps, each with all of its repeats."""
        return cls(
            bad=tally_of([bad]),
            good=tally_of([good]),
            failing=failing,
            comparisons=comparisons,
            held=bad.verdict is Verdict.BAD and good.verdict is Verdict.GOOD,
            flaky=flaky,
        )

    @property
    def doubt(self) -> float:
        """How well luck explains the pair: 0 not at all, 1 completely (no evidence against luck)."""
        if not self.held:
            return 1.0
        return min(1.0, max(1, self.comparisons) * doubt(self.failing, self.good.runs))


@dataclass(frozen=True, kw_only=True)
class Proof:
    """How certain a claim is after its runs and alternatives; reports print ``1 - doubt``."""

    confidence: Confidence
    doubt: float

    @property
    def proven(self) -> bool:
        """Whether the claim is proven."""
        return self.confidence is Confidence.PROVEN


def prove(pair: PairOfRuns, alternatives: Iterable[Considered] = (), *, budget: float) -> Proof:
    """Returns the certainty of a claim: the lowest that its runs, repeats and alternatives allow.

    ``budget`` is the doubt that is allowed.
    """
    # A failing side that passes only now is flaky: the other side was called good after too few runs.
    steady = pair.flaky or pair.bad.failures == pair.bad.runs
    sure = pair.held and steady and pair.doubt <= budget
    best = Confidence.PROVEN if sure else Confidence.LIKELY if pair.held else Confidence.INCONCLUSIVE
    return Proof(confidence=capped(best, alternatives), doubt=pair.doubt)


def prove_verdicts(
    errors: Iterable[float], alternatives: Iterable[Considered] = (), *, budget: float = 0.01
) -> Proof:
    """Returns the certainty of a claim from verdicts, each with a bound on its chance of being wrong."""
    doubted = min(1.0, sum(errors))
    best = Confidence.PROVEN if doubted <= budget else Confidence.LIKELY
    return Proof(confidence=capped(best, alternatives), doubt=doubted)


def surest(alternatives: Iterable[Considered]) -> Confidence:
    """Returns the highest confidence that these alternatives allow, whatever the runs say."""
    return capped(Confidence.PROVEN, alternatives)


def capped(confidence: Confidence, alternatives: Iterable[Considered]) -> Confidence:
    """Returns the confidence, lowered to what the open alternatives allow."""
    limits = [alternative.limit for alternative in alternatives if alternative.open]
    return min([confidence, *limits], key=ORDER.index)


def out_of_time(what: str) -> Considered:
    """Returns what time did not allow as an open alternative: while it is open, nothing is proven."""
    why = Evidence.of(EvidenceKind.UNASKED, question=what)
    return Considered(name="out_of_time", open=True, why=why, component=True)


def prove_again(
    runner: LadderRunner,
    bad: Step,
    good: Step,
    failing: Tally,
    *,
    comparisons: int = 1,
    alternatives: Iterable[Considered] = (),
    kind: str = "proof",
    passed_elsewhere: int = 0,
    most: int = MOST_PASSES,
) -> tuple[Step, Proof]:
    """Repeats the passing side's question until luck is ruled out; returns the step and the proof.

    ``passed_elsewhere`` are passes of other questions that also lack the culprit. ``kind`` is the heading
    under which the runs are counted. If ``most`` passes do not rule out luck, the claim is not proven.
    """
    budget = runner.budget / max(1, comparisons)
    needed = max(LEAST_PASSES, passes_needed(failing, budget, most) - passed_elsewhere)
    if good.verdict is Verdict.GOOD and needed > good.runs:
        good = runner.repeat(good, needed - good.runs, kind, until_bad=True)
    pair = PairOfRuns.of(bad, good, failing, comparisons=comparisons, flaky=runner.baseline.flaky)
    pair = replace(pair, good=pair.good.plus(Tally(runs=passed_elsewhere)))
    return good, prove(pair, alternatives, budget=runner.budget)


def prove_component(
    runner: LadderRunner,
    component: Component,
    passing_run: Step | None,
    bad: Step,
    *,
    comparisons: int,
    alternatives: Iterable[Considered] = (),
) -> tuple[Component, tuple[Evidence, ...]]:
    """Returns the component with its proven confidence, and evidence if the repeats disagree.

    ``passing_run`` is the run with only this component left out; if None, the confidence is only capped.
    ``bad`` is the run with everything in place.
    """
    contested = [alternative for alternative in alternatives if alternative.component]
    if passing_run is None:
        return replace(component, confidence=capped(component.confidence, contested)), ()
    again, proof = prove_again(
        runner,
        bad,
        passing_run,
        runner.failing,
        comparisons=comparisons,
        alternatives=contested,
        kind="component",
        most=MOST_COMPONENT_PASSES,
    )
    flaky = () if again.verdict is Verdict.GOOD else (Evidence.of(EvidenceKind.COMPONENT_FLAKY),)
    return replace(component, confidence=proof.confidence), flaky


def qualify(culprit: Culprit, alternatives: Iterable[Considered]) -> Culprit:
    """Returns the culprit with its alternatives, its confidence capped and the open ones in its evidence."""
    considered = tuple(alternatives)
    doubts = (a.why for a in considered if a.open and a.why not in culprit.evidence)
    part = culprit.component
    if part is not None:
        contested = [alternative for alternative in considered if alternative.component]
        part = replace(part, confidence=capped(part.confidence, contested))
    return replace(
        culprit,
        confidence=capped(culprit.confidence, considered),
        component=part,
        evidence=(*culprit.evidence, *doubts),
        alternatives=(*culprit.alternatives, *considered),
    )
