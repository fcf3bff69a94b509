"""Alternative: a graph input is not what Dynamo promised; the code below is right for the promise."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict

from .case import Alternative, Case, Moment, Ruling

NAME = "graph_inputs"


def ask(case: Case) -> Ruling:
    """Tests whether the script passes when the graph inputs have the types they were captured with."""
    wrong = _mismatches(case)
    corrected = case.runner.one(case.start, (("correct_inputs", True),), NAME)
    names = [f"{one['name']}: {one['promised']} promised, {one['given']} given" for one in wrong[:3]]
    if corrected.verdict is not Verdict.GOOD:
        why = Evidence.of(EvidenceKind.INPUTS_NOT_THE_CAUSE, inputs=names)
        return Ruling(considered=Considered(name=NAME, open=corrected.verdict is Verdict.SKIP, why=why))
    culprit = Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=Component(kind="input", name=wrong[0]["name"], detail="; ".join(names)),
        evidence=(Evidence.of(EvidenceKind.INPUTS_CORRECTED, inputs=names, at=case.start),),
    )
    return Ruling(culprit=culprit, passing_run=corrected, isolates=len(wrong) == 1)


def _mismatches(case: Case) -> list[dict[str, str]]:
    """Returns the mismatches of the first rung that has any; Inductor's own runs are not checked."""
    rows = (step.outcome.facts.get("graph_inputs") for step in case.ladder)
    return list(next((row for row in rows if row), ()))


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#198187",  # float values of random.Random handed over as float64
    stages=frozenset(Stage) - {Stage.EAGER, Stage.DYNAMO},
    moment=Moment.STAGE,
    applies=lambda case: case.start is not Rung.DYNAMO and bool(_mismatches(case)),
    ask=ask,
)
