"""The search below an accelerator of a third party: how far down its own ways does the script pass?

Without ways of its own the accelerator is one box: it fails in there or it does not. With them, what a way is
said to add is at fault where it fails and the way before it passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from accel_lab.core.findings import Component, Considered, Culprit, Findings, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import environment_hints
from accel_lab.search.bisection import Bisection, Options, Pair
from accel_lab.search.lab import Lab
from accel_lab.search.ladder_runner import LadderRunner, Switches, tally_of
from accel_lab.search.premise import Baseline
from accel_lab.search.proof import prove_again

from .premise import Premise

#: The way that the child makes itself: the adapter's graphs, decomposed as it asks, run by torch on the host.
GRAPHS = "graphs"
#: How an adapter's word for what is at fault ends, and the stage that it means.
_PARTS = {
    "front_end": Stage.ACCELERATOR_FRONT_END,
    "back_end": Stage.ACCELERATOR_BACK_END,
    "transfer": Stage.ACCELERATOR_TRANSFER,
}


@dataclass(frozen=True, kw_only=True)
class Way:
    """One row: how the script is run, and what is at fault where this fails and the row before passes."""

    rung: Rung
    stage: Stage
    name: str = ""
    part: str = ""


def ways_of(*outcomes: Outcome) -> list[Way]:
    """All rows, the accelerator as it is the last; in one of the outcomes it told its own ways."""
    told: dict[str, Any] = next((o.facts["accelerator"] for o in outcomes if o.facts.get("accelerator")), {})
    own, last = told.get("ways", ()), told.get("last", "") if told.get("ways") else ""
    return [
        Way(rung=Rung.UNCOMPILED, stage=Stage.EAGER),
        Way(rung=Rung.DYNAMO, stage=Stage.DYNAMO),
        Way(rung=Rung.AOT, stage=Stage.AOT_AUTOGRAD),
        Way(
            rung=Rung.ACCELERATOR,
            stage=Stage.ACCELERATOR_FRONT_END,
            name=GRAPHS,
            part="the adapter's decompositions",
        ),
        *(Way(rung=Rung.ACCELERATOR, stage=stage_of(blames), name=name, part=blames) for name, blames in own),
        Way(rung=Rung.ACCELERATOR, stage=stage_of(last), part=last),
    ]


def stage_of(blames: str) -> Stage:
    """The stage that an adapter's word means; the accelerator as a whole where it is none of the known."""
    return _PARTS.get(blames.rpartition(".")[2].strip().lower().replace(" ", "_"), Stage.ACCELERATOR)


def switches_of(adapter: str, way: str = "") -> Switches:
    """The probe's switches for one way down an adapter; without a name its usual one."""
    return (("adapter", {"name": adapter, "way": way}),)


class AdapterDiagnosis(Bisection):
    """Bisects a program on the accelerator of a registered adapter."""

    def __init__(self, lab: Lab, probe: Probe, options: Options | None = None, *, adapter: str) -> None:
        super().__init__(lab, probe, options)
        self._adapter = adapter

    def run(self) -> Findings:
        """The culprit, if the script fails on the accelerator."""
        found = self.findings
        on_it = replace(self._probe, rung=Rung.ACCELERATOR, switches=switches_of(self._adapter))
        base = self.baseline = Premise(self._lab, on_it).run()
        self._take_baseline(base, len(base.steps) + 1)
        if base.target is None:
            found.verdict = "inconclusive" if base.doubtful else "passes"
            return found
        runner = self._ladder_runner(base)
        top = replace(
            next(step for step in reversed(base.steps) if step.verdict is Verdict.BAD),
            runs=base.tally.runs,
            failures=base.tally.failures,
        )
        # A run that the accelerator ends by a signal tells nothing; its graphs alone do not get so far.
        graphs = runner.one(Rung.ACCELERATOR, switches_of(self._adapter, GRAPHS), "accelerator")
        ways = ways_of(top.outcome, graphs.outcome)
        asked = runner.ask(((way.rung, self._settings(way)) for way in ways[:-1]), "accelerator")
        rows = [replace(step, label=self._label(way)) for step, way in zip(asked, ways, strict=False)]
        rows.append(replace(top, label=self._label(ways[-1])))
        found.ladder = rows
        self._constraints(top.outcome)
        found.culprits = self._culprits(runner, base, ways, rows)
        found.verdict = "fails" if found.culprits else "inconclusive"
        return found

    def _settings(self, way: Way) -> Switches:
        return switches_of(self._adapter, way.name) if way.rung is Rung.ACCELERATOR else ()

    def _label(self, way: Way) -> str:
        if way.rung is not Rung.ACCELERATOR:
            return ""
        if not way.name:
            return f"{self._adapter} as it is"
        if way.name == GRAPHS:
            return "its graphs, run by torch on the host"
        return f"{self._adapter}: {way.name}"

    def _constraints(self, outcome: Outcome) -> None:
        broken = outcome.facts.get("accelerator", {}).get("violations", {})
        if broken:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(broken.items()))
            self.findings.warnings.append(
                f"its graphs break constraints of {self._adapter}: {listed}; see accel-lab check"
            )

    # -- the culprit ---------------------------------------------------------------------------

    def _culprits(
        self, runner: LadderRunner, base: Baseline, ways: Sequence[Way], rows: list[Step]
    ) -> list[Culprit]:
        place = first_fault([step.verdict for step in rows])
        if place is None:
            self.findings.warnings.append("no way that passes stands before one that fails")
            return []
        way = ways[place]
        if place == 0:
            self.pair = Pair(bad=(Rung.UNCOMPILED, switches_of(self._adapter)))
            return [self._of_script(rows[0])]
        evidence = [f"passes with {self._said(ways[place - 1])} and fails with {self._said(way)}"]
        only_accelerator = []
        if way.stage is Stage.ACCELERATOR:
            # Nothing inside of it was taken out: that it is the accelerator is all that is known.
            words = "no part of the accelerator was replaced, so its parts are not told apart"
            only_accelerator.append(Considered(name="one_box", open=True, words=words))
        confidence, told = self._prove(runner, base, rows, place, only_accelerator)
        passing = ways[place - 1]
        self.pair = Pair(
            bad=(way.rung, self._settings(way)),
            good=(passing.rung, self._settings(passing)),
            without=self._said(passing),
        )
        component = None
        if way.stage is Stage.ACCELERATOR:
            offered = [other.name for other in ways if other.rung is Rung.ACCELERATOR and other.name]
            evidence.append(
                f"the adapter offers no way that fails on its own ({', '.join(offered[1:])} pass)"
                if offered[1:]
                else "the adapter offers no further ways down, so its front end and its back end are not "
                "told apart"
            )
        elif way.part and way.rung is Rung.ACCELERATOR:
            component = Component(
                kind="way",
                name=way.name or f"{self._adapter} as it is",
                detail=f"{self._adapter}: {way.part}",
                confidence=confidence,
            )
        return [
            Culprit(
                stage=way.stage,
                confidence=confidence,
                component=component,
                evidence=(*evidence, *told, *(d.line for d in base.values[:2])),
                alternatives=tuple(only_accelerator),
            )
        ]

    def _said(self, way: Way) -> str:
        return self._label(way) or str(way.rung)

    @staticmethod
    def _of_script(plain: Step) -> Culprit:
        early = environment_hints.of_script(plain.outcome)
        return early or Culprit(
            stage=Stage.EAGER,
            confidence=Confidence.LIKELY,
            evidence=("the script fails when nothing is compiled, so no accelerator is needed for it",),
        )

    def _prove(
        self,
        runner: LadderRunner,
        base: Baseline,
        rows: list[Step],
        place: int,
        alternatives: Sequence[Considered],
    ) -> tuple[Confidence, list[str]]:
        """Ask the two neighbours again: one must fail each time, the other pass as often as luck demands."""
        bad = rows[place] = runner.repeat(rows[place], 1, "proof")
        failing = tally_of(step for step in rows if step.verdict is Verdict.BAD)
        verdicts = [step.verdict for step in rows]
        considered = [*base.alternatives, *alternatives]
        if Verdict.GOOD in verdicts[place:] or set(verdicts[:place]) != {Verdict.GOOD}:
            words = "the ways down are not in one order: some after it pass"
            self.findings.warnings.append(words)
            considered.append(Considered(name="not_monotone", open=True, words=words))
        good, proof = prove_again(
            runner, bad, rows[place - 1], failing, comparisons=len(rows), alternatives=considered
        )
        rows[place - 1] = good
        self.findings.confidence = round(1.0 - proof.doubt, 6)
        told = [
            f"asked again: failed {bad.failures} of {bad.runs} runs, "
            f"passed {good.runs - good.failures} of {good.runs}"
        ]
        return proof.confidence, told


def first_fault(verdicts: Sequence[Verdict]) -> int | None:
    """The first row that fails with one before it that passes; 0 where the first already fails."""
    if verdicts and verdicts[0] in (Verdict.BAD, Verdict.DIFFERENT):
        return 0
    for place in range(1, len(verdicts)):
        if verdicts[place] is Verdict.BAD and verdicts[place - 1] is Verdict.GOOD:
            return place
    return None


__all__ = ["GRAPHS", "AdapterDiagnosis", "Way", "first_fault", "stage_of", "switches_of", "ways_of"]
