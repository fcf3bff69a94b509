"""Alternative: an inconclusive rung between the last that passes and the first that fails."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import LADDER, LONG_LADDER, Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder import read

from .case import Alternative, Case, Moment, Ruling

NAME = "skipped_rung"


def _skipped(case: Case) -> list[Rung]:
    """Returns the inconclusive rungs between the two that the verdict rests on."""
    reading = read([(step.rung, step.verdict) for step in case.ladder if step.rung in LONG_LADDER])
    if reading.last_good is None or reading.first_bad is None:
        return []
    low, high = LONG_LADDER.index(reading.last_good), LONG_LADDER.index(reading.first_bad)
    return [
        step.rung
        for step in case.ladder
        if step.verdict is Verdict.SKIP and step.rung in LADDER and low < LONG_LADDER.index(step.rung) < high
    ]


def ask(case: Case) -> Ruling:
    """Rules out the alternative if the component is proven: its pair of runs needs no rung."""
    rungs = _skipped(case)
    if case.component is not None and case.component.confidence is Confidence.PROVEN:
        why = Evidence.of(EvidenceKind.RUNG_SKIPPED_COMPONENT_PROVEN, rungs=rungs)
        return Ruling(considered=Considered(name=NAME, open=False, why=why))
    why = Evidence.of(EvidenceKind.RUNG_SKIPPED, rungs=rungs)
    return Ruling(
        considered=Considered(name=NAME, open=True, why=why, limit=Confidence.INCONCLUSIVE),
        warnings=(why,),
    )


ALTERNATIVE = Alternative(
    name=NAME,
    issue="seeded faults of benchmarks/inductor_faults on torch 2.6.0, where the fx rung was refused",
    stages=frozenset(Stage),
    moment=Moment.COMPONENT,
    applies=lambda case: bool(_skipped(case)),
    ask=ask,
)
