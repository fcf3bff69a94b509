"""Alternative: an operator raises on fake tensors during tracing, but its real kernel does not."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.search import frames

from .case import Alternative, Case, Moment, Ruling


def ask(case: Case) -> Ruling:
    """Checks whether an operator that ran on fake tensors raised."""
    op = frames.refused_on_fake_tensors(case.at.outcome.raised)
    if not op:
        return Ruling()
    return Ruling(
        culprit=Culprit(
            stage=Stage.META_KERNEL,
            confidence=Confidence.LIKELY,
            component=Component(kind="op", name=op, detail="raises when it is traced on fake tensors"),
            evidence=(Evidence.of(EvidenceKind.RAISES_ON_FAKE_TENSORS, at=case.start, operator=op),),
        )
    )


ALTERNATIVE = Alternative(
    name="fake_tensors",
    issue="pytorch#197622",  # the meta kernel of bicubic's backward raises for symbolic sizes
    stages=frozenset({Stage.AOT_AUTOGRAD}),
    moment=Moment.STAGE,
    applies=lambda case: case.start is Rung.AOT,
    ask=ask,
)
