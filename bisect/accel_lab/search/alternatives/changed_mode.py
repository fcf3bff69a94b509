"""Alternative: the captured graph leaves a torch mode changed, which breaks whoever runs the graph twice."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.search.localize.dynamo import lost_state

from .case import Alternative, Case, Moment, Ruling

NAME = "changed_mode"


def ask(case: Case) -> Ruling:
    """Compares torch's modes after the captured graph with those after the uncompiled script."""
    observe = (("front", {"look": True}),)
    captured, plain = case.runner.ask([(Rung.DYNAMO, observe), (Rung.UNCOMPILED, observe)], "guard check")
    rows = [row for row in lost_state(captured, plain) if row[1].startswith("torch.")]
    if not rows:
        why = Evidence.of(EvidenceKind.MODES_AGREE)
        return Ruling(considered=Considered(name=NAME, open=False, why=why))
    call, mode, want, got = rows[0]
    return Ruling(
        culprit=Culprit(
            stage=Stage.DYNAMO,
            confidence=Confidence.LIKELY,
            component=Component(
                kind="side_effect",
                name=mode,
                detail=shorten(
                    f"after call {call}: {want} uncompiled, {got} with the captured graph run unchanged", 300
                ),
            ),
            evidence=(
                Evidence.of(
                    EvidenceKind.MODE_LEFT_CHANGED, mode=mode, compiled=got, script=want, at=case.start
                ),
            ),
        )
    )


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#134030",  # a generator that leaves a mode changed in its finally
    stages=frozenset({Stage.AOT_AUTOGRAD}),
    moment=Moment.STAGE,
    applies=lambda case: case.start is Rung.AOT and not case.runner.baseline.flaky,
    ask=ask,
)
