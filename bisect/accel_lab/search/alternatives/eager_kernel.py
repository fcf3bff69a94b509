"""Alternative: the operator's eager kernel is wrong, and the script compares compiled code with it.

The ladder's reference is eager mode, so the first rung that does not call the wrong kernel is blamed. The
values tell: a float64 run agrees with the compiled ones and not with the uncompiled ones (``by_design``).
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit
from accel_lab.core.stages import Confidence, Stage

from .case import Alternative, Case, Moment, Ruling

#: Stages that replace the eager kernel of one operator; a pass changes more than that.
_REPLACING = frozenset({Stage.DECOMPOSITION, Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL})
_OF_ONE_OPERATOR = ("op", "decomposition")


def ask(case: Case) -> Ruling:
    """Names the operator if its eager kernel alone fixes the failure; else only warns. Nothing is run."""
    why, part = Evidence.of(EvidenceKind.EAGER_FAR_FROM_FLOAT64), case.component
    if part is None or part.kind not in _OF_ONE_OPERATOR or "," in part.name or case.stage not in _REPLACING:
        return Ruling(warnings=(why,))
    culprit = Culprit(
        stage=Stage.EAGER,
        confidence=Confidence.LIKELY,
        component=Component(kind="op", name=part.name, detail=part.detail),
        evidence=(why, *case.localization.evidence),
        exhibits=tuple(case.localization.exhibits),
    )
    return Ruling(culprit=culprit)


ALTERNATIVE = Alternative(
    name="eager_kernel",
    issue="pytorch#177839",  # logit's vectorised eager kernel is wrong, the compiled one is not
    stages=frozenset(Stage),
    moment=Moment.COMPONENT,
    applies=lambda case: any(
        one.open and one.why.kind is EvidenceKind.EAGER_FAR_FROM_FLOAT64 for one in case.considered
    ),
    ask=ask,
)
