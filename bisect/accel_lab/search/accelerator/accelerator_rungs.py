"""Searches an accelerator's own rungs for the first that fails after one that passes.

An adapter without rungs of its own is a black box: the failure is inside or outside. With them, the part that
a rung adds is at fault if that rung fails and the previous one passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.bisection import Pair
from accel_lab.search.ladder_runner import Switches
from accel_lab.search.premise import wrong_values

from .accelerator import Accelerator
from .case import Case, culprit_of_script

#: The rung that the child provides: the adapter's graphs with its decompositions, run by torch on the host.
GRAPHS = "graphs"


@dataclass(frozen=True, kw_only=True)
class AcceleratorRung:
    """One row: how the script runs, and what is at fault if it fails and the previous row passes."""

    rung: Rung
    stage: Stage
    name: str = ""
    part: str = ""


def rungs_of(accelerator: Accelerator, *outcomes: Outcome) -> list[AcceleratorRung]:
    """Returns all rows, the unchanged accelerator last; an outcome's facts name the adapter's own rungs."""
    facts = next((found for outcome in outcomes if (found := accelerator.facts(outcome))), {})
    own, last = facts.get("ways") or (), facts.get("last", "") if facts.get("ways") else ""
    rung = accelerator.rung
    return [
        AcceleratorRung(rung=Rung.UNCOMPILED, stage=Stage.EAGER),
        AcceleratorRung(rung=Rung.DYNAMO, stage=Stage.DYNAMO),
        AcceleratorRung(rung=Rung.AOT, stage=Stage.AOT_AUTOGRAD),
        AcceleratorRung(
            rung=rung, stage=accelerator.front_end, name=GRAPHS, part="the adapter's decompositions"
        ),
        *(
            AcceleratorRung(rung=rung, stage=stage_of(blames, accelerator), name=name, part=blames)
            for name, blames in own
        ),
        AcceleratorRung(rung=rung, stage=stage_of(last, accelerator), part=last),
    ]


def stage_of(blames: str, accelerator: Accelerator) -> Stage:
    """Maps an adapter's words to a stage; unknown words mean the accelerator as a whole."""
    parts = {
        "front_end": accelerator.front_end,
        "back_end": accelerator.back_end,
        "transfer": accelerator.transfer,
    }
    return parts.get(blames.rpartition(".")[2].strip().lower().replace(" ", "_"), accelerator.whole)


def search_rungs(case: Case) -> None:
    """Names the rung that adds the fault."""
    _RungSearch(case).run()


class _RungSearch:
    """Runs the rows from the uncompiled script down to the unchanged accelerator."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._accelerator = case.accelerator
        self._rungs: list[AcceleratorRung] = []
        self._rows: list[Step] = []

    def run(self) -> None:
        case, accelerator = self._case, self._accelerator
        # A crash in the accelerator can leave no list of its rungs; the graphs-only run stops before it.
        graphs = case.runner.one(accelerator.rung, accelerator.switches(GRAPHS), "accelerator")
        self._rungs = rungs_of(accelerator, case.top.outcome, graphs.outcome)
        asked = case.runner.ask(((row.rung, self._settings(row)) for row in self._rungs[:-1]), "accelerator")
        self._rows = [
            replace(step, label=self._label(row)) for step, row in zip(asked, self._rungs, strict=False)
        ]
        self._rows.append(replace(case.top, label=self._label(self._rungs[-1])))
        case.findings.ladder = self._rows
        self._say_violations(case.top.outcome)
        case.findings.culprits = self._culprits()

    def _settings(self, row: AcceleratorRung) -> Switches:
        return self._accelerator.switches(row.name) if row.rung is self._accelerator.rung else ()

    def _label(self, row: AcceleratorRung) -> str:
        if row.rung is not self._accelerator.rung:
            return ""
        if not row.name:
            return f"{self._accelerator.name} as it is"
        if row.name == GRAPHS:
            return "its graphs, run by torch on the host"
        return f"{self._accelerator.name}: {row.name}"

    def _words(self, row: AcceleratorRung) -> str:
        return self._label(row) or str(row.rung)

    def _say_violations(self, outcome: Outcome) -> None:
        broken = self._accelerator.facts(outcome).get("violations") or {}
        if broken:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(broken.items()))
            self._case.findings.warnings.append(
                f"its graphs break constraints of {self._accelerator.name}: {listed}; see accel-lab check"
            )

    # -- the culprit ---------------------------------------------------------------------------

    def _culprits(self) -> list[Culprit]:
        case, rungs, rows = self._case, self._rungs, self._rows
        place = first_fault([step.verdict for step in rows])
        if place is None:
            case.findings.warnings.append("no accelerator rung fails directly after a passing one")
            return []
        if place == 0:
            case.pair = Pair(bad=(Rung.UNCOMPILED, self._accelerator.switches()))
            return [culprit_of_script(rows[0])]
        failing, passing = rungs[place], rungs[place - 1]
        evidence = [
            Evidence.of(
                EvidenceKind.ADAPTER_RUNG_FAILS, passing=self._words(passing), failing=self._words(failing)
            )
        ]
        one_box = []
        if failing.stage is self._accelerator.whole:
            # No part was replaced inside it, so only the accelerator as a whole can be blamed.
            one_box.append(Considered(name="one_box", open=True, why=Evidence.of(EvidenceKind.SINGLE_RUNG)))
        confidence, repeats = self._prove(place, one_box)
        case.pair = Pair(
            bad=(failing.rung, self._settings(failing)),
            good=(passing.rung, self._settings(passing)),
            without=self._words(passing),
        )
        component = None
        if failing.stage is self._accelerator.whole:
            evidence.append(self._one_box())
        elif failing.part and failing.rung is self._accelerator.rung:
            component = Component(
                kind="way",
                name=failing.name or f"{self._accelerator.name} as it is",
                detail=f"{self._accelerator.name}: {failing.part}",
                confidence=confidence,
            )
        return [
            Culprit(
                stage=failing.stage,
                confidence=confidence,
                component=component,
                evidence=(*evidence, repeats, *wrong_values(case.base.values)),
                alternatives=tuple(one_box),
            )
        ]

    def _one_box(self) -> Evidence:
        rung = self._accelerator.rung
        offered = [row.name for row in self._rungs if row.rung is rung and row.name not in ("", GRAPHS)]
        if offered:
            return Evidence.of(EvidenceKind.NO_ADAPTER_RUNG_FAILS_ALONE, ways=offered)
        return Evidence.of(EvidenceKind.NO_FURTHER_WAYS)

    def _prove(self, place: int, alternatives: Sequence[Considered]) -> tuple[Confidence, Evidence]:
        """Repeats the failing row and its passing neighbour."""
        rows = self._rows
        verdicts = [step.verdict for step in rows]
        considered = list(alternatives)
        if Verdict.GOOD in verdicts[place:] or set(verdicts[:place]) != {Verdict.GOOD}:
            why = Evidence.of(EvidenceKind.ADAPTER_RUNGS_NOT_MONOTONE)
            self._case.findings.warnings.append(why)
            considered.append(Considered(name="not_monotone", open=True, why=why))
        bad, good, proof = self._case.prove(
            rows[place],
            rows[place - 1],
            [step for number, step in enumerate(rows) if number != place],
            comparisons=len(rows),
            alternatives=considered,
        )
        rows[place], rows[place - 1] = bad, good
        return proof.confidence, Evidence.of(
            EvidenceKind.WAYS_REPEATED,
            failures=bad.failures,
            runs=bad.runs,
            passes=good.runs - good.failures,
            passing_runs=good.runs,
        )


def first_fault(verdicts: Sequence[Verdict]) -> int | None:
    """Returns the first row that fails right after a passing one; 0 if the first row fails; else None."""
    if verdicts and verdicts[0] in (Verdict.BAD, Verdict.DIFFERENT):
        return 0
    for place in range(1, len(verdicts)):
        if verdicts[place] is Verdict.BAD and verdicts[place - 1] is Verdict.GOOD:
            return place
    return None
