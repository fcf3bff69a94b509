"""Alternative: a rung without an answer between the last that passes and the first that fails.

It was inconclusive, or it was not run: with a backend of the script's own some rungs do not apply.
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import LADDER, LONG_LADDER, Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder import read

from .case import Alternative, Case, Moment, Ruling

NAME = "skipped_rung"


def _skipped(case: Case) -> list[Rung]:
    """Returns the rungs without an answer between the two that the verdict rests on."""
    reading = read([(step.rung, step.verdict) for step in case.ladder if step.rung in LONG_LADDER])
    if reading.last_good is None or reading.first_bad is None:
        return []
    low, high = LONG_LADDER.index(reading.last_good), LONG_LADDER.index(reading.first_bad)
    verdicts = {step.rung: step.verdict for step in case.ladder}
    between = (rung for rung in LADDER if low < LONG_LADDER.index(rung) < high)
    return [rung for rung in between if verdicts.get(rung, Verdict.SKIP) is Verdict.SKIP]


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
