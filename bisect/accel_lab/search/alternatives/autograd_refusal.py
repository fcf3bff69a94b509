"""Alternative: autograd's own check raises, which no stage below AOTAutograd knows about."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import Stage
from accel_lab.search import frames

from .case import Alternative, Case, Moment, Ruling

NAME = "autograd_refusal"


def ask(case: Case) -> Ruling:
    """Leaves the alternative open if autograd's own check raised."""
    why = Evidence.of(EvidenceKind.AUTOGRAD_RAISES)
    return Ruling(considered=Considered(name=NAME, open=True, why=why, component=True))


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#185497",  # an input is saved for the backward and then written
    stages=frozenset({Stage.FX_PASSES, Stage.KERNEL, *frames.KERNEL_STAGES}),
    moment=Moment.COMPONENT,
    applies=lambda case: frames.is_autograds(case.at.outcome.raised),
    ask=ask,
)
