"""The one place where ``proven`` is made: a pair of runs, repeated until luck is ruled out, and nothing open.

A proof has two sides: runs that contain the culprit and fail, and runs that differ by the culprit alone and
pass. Luck is bounded by a likelihood ratio (``flaky.doubt``), times the number of comparisons that the pair
was picked from (the union bound). What luck does not explain, another part of the compiler may: each known
way in which that happens is an alternative, and one that no run has ruled out keeps the verdict from being
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

#: From the least sure to the surest.
ORDER = (Confidence.INCONCLUSIVE, Confidence.LIKELY, Confidence.PROVEN)

#: The passing side is run at least so often: one pass says little of a failure that comes and goes.
LEAST_PASSES = 2
#: So many passes are asked at most: of a stage's proof, and of a component's, for which nobody should wait.
MOST_PASSES, MOST_COMPONENT_PASSES = 60, 6


@dataclass(frozen=True, kw_only=True)
class PairOfRuns:
    """Both sides of a proof.

    ``bad`` are the runs of the failing side, ``good`` those of the passing side, ``failing`` all runs that
    contain the culprit for sure (those of ``bad`` among them). ``comparisons`` is the number of pairs that
    this one was picked from. ``held`` says that both sides kept their verdict when they were asked again;
    ``flaky`` that the script is known to fail on some of its runs only, so that a pass on the failing side is
    no surprise.
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
        """The pair of two steps, each with all of its repeats."""
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
        """How well luck explains the pair: 0 not at all, 1 perfectly (nothing speaks against it)."""
        if not self.held:
            return 1.0
        return min(1.0, max(1, self.comparisons) * doubt(self.failing, self.good.runs))


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a pair of runs and the alternatives make of a claim; ``1 - doubt`` is what is printed."""

    confidence: Confidence
    doubt: float

    @property
    def proven(self) -> bool:
        """Whether the claim is proven."""
        return self.confidence is Confidence.PROVEN


def prove(pair: PairOfRuns, alternatives: Iterable[Considered] = (), *, budget: float) -> Proof:
    """How sure a claim is: as its runs, their repeats and the alternatives leave it, whichever is least.

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
    """How sure a claim is that rests on verdicts, each with a bound on the chance that it is wrong."""
    doubted = min(1.0, sum(errors))
    best = Confidence.PROVEN if doubted <= budget else Confidence.LIKELY
    return Proof(confidence=capped(best, alternatives), doubt=doubted)


def surest(alternatives: Iterable[Considered]) -> Confidence:
    """The most that a verdict can be with these alternatives, whatever its runs say."""
    return capped(Confidence.PROVEN, alternatives)


def capped(confidence: Confidence, alternatives: Iterable[Considered]) -> Confidence:
    """A confidence lowered to what the open alternatives leave."""
    limits = [alternative.limit for alternative in alternatives if alternative.open]
    return min([confidence, *limits], key=ORDER.index)


def unasked(what: str) -> Considered:
    """What the time did not reach, as an alternative: while it is open, nothing is proven."""
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
    """Ask the passing side again, the very same question, until luck is ruled out; the step and the proof.

    ``passed_elsewhere`` are passes of other questions that lack the culprit as well. ``kind`` is the heading
    under which the runs are counted. Where ``most`` passes do not rule out luck, the claim is not proven.
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
    """The component as sure as its own run makes it, and what was seen where the repeats disagree.

    ``passing_run`` is the run with only this component left out; without one it stays as it is. ``bad`` is
    the run with everything in place.
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
    """The culprit with its alternatives, no surer than they leave it; evidence names those that are open."""
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
