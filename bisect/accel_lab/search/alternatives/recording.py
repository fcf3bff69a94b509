"""Alternative: the recorder causes the failure, because it keeps inputs alive.

A script that checks whether a tensor is freed, or that nearly fills its memory, then fails uncompiled. Such a
script is judged without recording.
"""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.premise import unrecorded

from .case import Alternative, Case, Moment, Ruling

NAME = "recording"


def ask(case: Case) -> Ruling:
    """Tests whether the script passes uncompiled when nothing is recorded."""
    runner = replace(case.runner, probe=unrecorded(case.runner.probe))
    step = runner.one(Rung.UNCOMPILED, kind=NAME)
    if step.verdict is Verdict.GOOD:
        return Ruling(unrecorded=True)
    if step.verdict is not Verdict.BAD:
        return Ruling()
    why = Evidence.of(EvidenceKind.FAILS_UNRECORDED)
    return Ruling(considered=Considered(name=NAME, open=False, why=why))


def _applies(case: Case) -> bool:
    target = case.runner.baseline.target
    fails_by_itself = target is not None and target.kind in ("exception", "exit")
    return fails_by_itself and case.fails_uncompiled and case.runner.probe.limits.record_mb > 0


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#195866",  # an input that Dynamo keeps alive, as the recorder does
    stages=frozenset({Stage.EAGER}),
    moment=Moment.STAGE,
    applies=_applies,
    ask=ask,
)
