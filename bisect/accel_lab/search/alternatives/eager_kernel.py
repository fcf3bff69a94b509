"""Alternative: the operator's eager kernel is wrong, and the script compares compiled code with it.

The ladder's reference is eager mode, so the first rung that does not call the wrong kernel is blamed. The
values tell: a float64 run agrees with the compiled ones and not with the uncompiled ones.
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage

from .by_design import draws, fails_by_a_check, only_eager_is_off, top_of
from .case import NOTHING, Alternative, Case, Moment, Ruling

#: Stages that replace the eager kernel of one operator.
_STAGES = frozenset({Stage.DECOMPOSITION, Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL})
_OF_ONE_OPERATOR = ("op", "decomposition")


def ask(case: Case) -> Ruling:
    """Tests whether float64 sides with the compiled values where only one operator's eager kernel cures."""
    part, runner = case.component, case.runner
    reference = runner.one(Rung.UNCOMPILED, (("shadow", True),), "by design")
    if part is None or not only_eager_is_off(case, reference):
        return NOTHING
    culprit = Culprit(
        stage=Stage.EAGER,
        confidence=Confidence.LIKELY,
        component=Component(kind="op", name=part.name, detail=part.detail),
        evidence=(
            Evidence.of(EvidenceKind.EAGER_FAR_FROM_FLOAT64),
            *case.localization.evidence,
        ),
        exhibits=tuple(case.localization.exhibits),
    )
    return Ruling(culprit=culprit)


ALTERNATIVE = Alternative(
    name="eager_kernel",
    issue="pytorch#177839",  # logit's vectorised eager kernel is wrong, the compiled one is not
    stages=_STAGES,
    moment=Moment.COMPONENT,
    applies=lambda case: (
        case.component is not None
        and case.component.kind in _OF_ONE_OPERATOR
        and "," not in case.component.name
        and fails_by_a_check(case)
        and not draws(top_of(case).outcome)
    ),
    ask=ask,
)
