"""Lists all alternatives in the order in which they are tested, and tests them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from accel_lab.core.errors import OutOfTime
from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import ByDesign, Considered, Culprit
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import Switches, tally_of
from accel_lab.search.proof import Proof, out_of_time, prove_again

from . import (
    autograd_refusal,
    by_design,
    changed_mode,
    eager_kernel,
    fake_tensors,
    graph_inputs,
    layout,
    merged_results,
    meta_kernel,
    other_process,
    plain_uncompiled,
    python_kernel,
    recording,
    reused_graph,
    skipped_rung,
    wrapper,
)
from .case import Alternative, Case, Moment

ALTERNATIVES: tuple[Alternative, ...] = (
    wrapper.ALTERNATIVE,
    recording.ALTERNATIVE,
    plain_uncompiled.ALTERNATIVE,
    other_process.ALTERNATIVE,
    graph_inputs.ALTERNATIVE,
    by_design.RANDOM_NUMBERS,
    by_design.ROUNDINGS_OF_VALUES,
    meta_kernel.ALTERNATIVE,
    python_kernel.ALTERNATIVE,
    reused_graph.ALTERNATIVE,
    changed_mode.ALTERNATIVE,
    fake_tensors.ALTERNATIVE,
    layout.ALTERNATIVE,
    merged_results.ALTERNATIVE,
    meta_kernel.LOST_CHECK,
    autograd_refusal.ALTERNATIVE,
    skipped_rung.ALTERNATIVE,
    eager_kernel.ALTERNATIVE,
)


@dataclass(kw_only=True)
class Rulings:
    """The alternatives that were considered, and the culprit with its proof if one of them is the fault."""

    considered: list[Considered] = field(default_factory=list)
    culprit: Culprit | None = None
    by_design: ByDesign | None = None
    outside: str = ""
    held: Switches = ()
    unrecorded: bool = False
    proof: Proof | None = None
    warnings: list[Evidence | str] = field(default_factory=list)


def ask(case: Case, moment: Moment) -> Rulings:
    """Tests every alternative to the case's stage until one turns out to be the fault.

    Inserts a ruling's ladder row after the rung ``AOT``. Alternatives that time does not allow stay open.
    """
    rulings = Rulings()
    for alternative in ALTERNATIVES:
        if alternative.moment is not moment or case.stage not in alternative.stages:
            continue
        if not alternative.applies(case):
            continue
        try:
            ruling = alternative.ask(case)
        except OutOfTime:
            words = f"another explanation: {alternative.name}"
            case.runner.lab.time_budget.note_unasked(words)
            rulings.considered.append(out_of_time(words))
            continue
        if ruling.row is not None:
            place = next(n for n, step in enumerate(case.ladder) if step.rung is Rung.AOT)
            case.ladder.insert(place + 1, ruling.row)
        rulings.warnings += ruling.warnings
        if ruling.considered is not None:
            rulings.considered.append(ruling.considered)
            case.considered.append(ruling.considered)
        if ruling.by_design is not None or ruling.outside or ruling.unrecorded:
            rulings.by_design, rulings.outside = ruling.by_design, ruling.outside
            rulings.held, rulings.unrecorded = ruling.held, ruling.unrecorded
            break
        if ruling.culprit is not None:
            rulings.culprit, rulings.proof = ruling.culprit, None
            if ruling.passing_run is not None:
                rows = [step for step in case.ladder if step.verdict is Verdict.BAD]
                bad = case.at if case.at.verdict is Verdict.BAD else rows[0]
                try:
                    passing_run, rulings.proof = prove_again(
                        case.runner, bad, ruling.passing_run, tally_of(rows), comparisons=ruling.comparisons
                    )
                except OutOfTime:
                    words = "the proof's repeats"
                    case.runner.lab.time_budget.note_unasked(words)
                    rulings.considered.append(out_of_time(words))
                    break
                part = ruling.culprit.component
                if part is not None and ruling.isolates:
                    part = replace(part, confidence=rulings.proof.confidence)
                repeated = Evidence.of(
                    EvidenceKind.INPUT_RECORRECTED,
                    passes=passing_run.runs - passing_run.failures,
                    runs=passing_run.runs,
                )
                rulings.culprit = replace(
                    ruling.culprit,
                    confidence=rulings.proof.confidence,
                    component=part,
                    evidence=(*ruling.culprit.evidence, repeated),
                )
            break
    return rulings
