"""Alternative: an eager kernel misreads legal strides; rungs up to the FX passes run eager's kernels."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import Stage
from accel_lab.core.verdict import Verdict

from .case import Alternative, Case, Moment, Ruling

NAME = "layout"


def ask(case: Case) -> Ruling:
    """Tests whether the graph is right when every operator gets contiguous tensors."""
    dense = case.runner.one(case.at.rung, (("contiguous", True),), "layout check")
    if dense.verdict is not Verdict.GOOD:
        ruled_out = Considered(name=NAME, open=False, why=Evidence.of(EvidenceKind.FAILS_CONTIGUOUS))
        return Ruling(considered=ruled_out if dense.verdict is Verdict.BAD else None)
    why = Evidence.of(EvidenceKind.PASSES_CONTIGUOUS, at=case.at.rung)
    return Ruling(considered=Considered(name=NAME, open=True, why=why, component=True))


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#197888",
    stages=frozenset({Stage.DECOMPOSITION, Stage.FX_PASSES}),
    moment=Moment.COMPONENT,
    applies=lambda case: case.at.verdict is Verdict.BAD and not case.runner.baseline.flaky,
    ask=ask,
)
