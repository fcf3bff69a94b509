"""Localizes the fault within the stage that the ladder blames."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from accel_lab.core.errors import OutOfTime
from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.time_budget import Allowance
from accel_lab.core.verdict import Verdict
from accel_lab.search import frames
from accel_lab.search.alternatives import registry
from accel_lab.search.alternatives.case import Case, Moment
from accel_lab.search.ladder import row
from accel_lab.search.proof import out_of_time

from . import kernel_stage
from .components import localize_component
from .divergence import first_divergence
from .localization import Localization


@dataclass(kw_only=True)
class Opened:
    """The culprit within the stage. ``alternatives`` were considered but are not yet part of the culprit."""

    culprit: Culprit
    alternatives: list[Considered] = field(default_factory=list)
    ablation: list[Step] = field(default_factory=list)
    warnings: list[Evidence | str] = field(default_factory=list)


def open_stage(
    case: Case, *, components: bool, full_ablation: bool, allowance: Allowance | None = None
) -> Opened:
    """Returns the culprit within the case's stage, at most likely; ``stage_proof`` raises the confidence.

    Sets the case's stage, component and longer ladder. ``components`` says whether to search for a component,
    ``full_ablation`` whether to run every switch of the kernel rung. The component search is paid from
    ``allowance``.
    """
    time_budget = case.runner.lab.time_budget
    if case.stage is Stage.KERNEL:
        split = _split(case, full_ablation)
        case.ladder = split.ladder
        evidence, ablation, alternatives = split.evidence, split.ablation, split.alternatives
        case.stage, case.localization = split.stage, Localization()
        if components:
            with time_budget.allow(allowance):
                time_budget.phase("component")
                case.localization = _within_kernel(case, split)
        case.localization.component = _narrowed(case.localization.component, split.component)
    else:
        case.stage, evidence = _by_frames(case)
        ablation, alternatives = [], []
        case.localization = Localization()
        if components:
            with time_budget.allow(allowance):
                time_budget.phase("component")
                case.localization = localize_component(case.runner, case.stage, case.at, ladder=case.ladder)
            case.stage = case.localization.stage or case.stage
    rulings = registry.ask(case, Moment.COMPONENT)
    localization = case.localization
    culprit = Culprit(
        stage=case.stage,
        confidence=Confidence.LIKELY,
        component=localization.component,
        evidence=(*evidence, *localization.evidence),
        exhibits=tuple(localization.exhibits),
    )
    return Opened(
        culprit=rulings.culprit or culprit,
        alternatives=[*alternatives, *localization.alternatives, *rulings.considered],
        ablation=ablation,
        warnings=rulings.warnings,
    )


def _split(case: Case, full: bool) -> kernel_stage.Split:
    """Splits the kernel stage; without time to split, returns the stage as a whole."""
    try:
        return kernel_stage.split(case.runner, case.ladder, full=full)
    except OutOfTime:
        left = "the split of the kernel stage into lowering, scheduler and code generation"
        case.runner.lab.time_budget.note_unasked(left)
        pair = Evidence.of(EvidenceKind.PASSES_AND_FAILS_AT, below=str(case.reading.last_good), at=case.start)
        return kernel_stage.Split(
            stage=Stage.KERNEL, ladder=case.ladder, evidence=[pair], alternatives=[out_of_time(left)]
        )


def _narrowed(localization: Component | None, of_split: Component | None) -> Component | None:
    """Of several operators whose removal fixes the failure, keeps the one whose own loop is at fault."""
    if localization is None or of_split is None:
        return localization or of_split
    one_of_them = localization.kind == of_split.kind and of_split.name in localization.name.split(", ")
    return replace(localization, name=of_split.name) if one_of_them else localization


def _within_kernel(case: Case, split: kernel_stage.Split) -> Localization:
    """Returns the operator, fusion or buffer, and the first wrong value."""
    runner, ladder = case.runner, case.ladder
    fallback = next((s.verdict for s in split.ablation if s.switch == "fallback"), None)
    searched = split.searched or split.stage
    all_off = fallback if searched is not Stage.LOWERING else None
    top = row(ladder, Rung.KERNEL)
    localization = localize_component(runner, searched, top, all_off=all_off, ablation=split.ablation)
    try:
        diverged = first_divergence(runner, split.stage, ladder, ablation=split.ablation)
    except OutOfTime:
        runner.lab.time_budget.note_unasked("the first value that goes wrong between the kernels")
        diverged = None
    if diverged is not None:
        localization.exhibits.append(diverged.exhibit)
        localization.component = localization.component or split.component or diverged.component
    return localization


def _by_frames(case: Case) -> tuple[Stage, list[Evidence]]:
    """Returns the stage, which an exception's frames may correct, and the evidence of the two rungs."""
    stage, below, at = case.stage, row(case.ladder, case.reading.last_good), case.at
    same = at.verdict is Verdict.BAD
    evidence = [Evidence.of(EvidenceKind.RUNG_ADDS_FAILURE, below=below.rung, at=at.rung, same=same)]
    hint = frames.innermost(at.outcome.raised.frames) if at.outcome.raised else None
    if hint is not None and hint[0] is not stage:
        # Frames are evidence only if the signature matches; another failure's frames show only where it ends.
        if at.verdict is Verdict.BAD:
            frame = hint[1]
            evidence.append(
                Evidence.of(EvidenceKind.INNERMOST_FRAME, file=frame.file, function=frame.function)
            )
        if hint[0] is Stage.PARTITIONER and stage is Stage.AOT_AUTOGRAD:
            # Code that both partitioners share fails with either, so only its frames can identify it.
            stage = Stage.PARTITIONER
    return stage, evidence
