"""Localizes the component of a stage: a decomposition, an FX pass, an operator's lowering.

The child records every application of a decomposition, pass or lowering in order (at the same places as
torch's own bisector). The culprit is found by switching halves of them off, and is named only if the failure
disappears with that one alone off. Each stage has its own search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accel_lab.core.errors import OutOfTime
from accel_lab.core.findings import Component, Step
from accel_lab.core.outcome import Frame, Outcome
from accel_lab.core.stages import Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import frames
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.proof import out_of_time, prove_component
from accel_lab.search.sanitizer import show_fault

from .front_end import STAGES as FRONT
from .front_end import localize_front
from .kernel import localize_kernel
from .localization import Localization
from .passes import localize_pass

#: The stages that the kernel rung is split into.
_KERNEL = (Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL)


def localize_component(
    runner: LadderRunner,
    stage: Stage,
    at: Step,
    *,
    ladder: Sequence[Step] = (),
    all_off: Verdict | None = None,
    ablation: Sequence[Step] = (),
) -> Localization:
    """Returns the component of ``stage`` with its evidence; from frames if nothing can be switched.

    ``all_off`` is the verdict with everything left out, if already known; ``ablation`` is the table of
    switches.
    """
    before = runner.counts.get("component", 0)
    try:
        result = _localize(runner, stage, at, ladder, all_off, ablation)
    except OutOfTime:
        left = f"the component of {stage.value}"
        runner.lab.time_budget.note_unasked(left)
        return Localization(component=_from_frames(at.outcome, stage), evidence=[out_of_time(left).why])
    if result.component is None:
        return result
    questions = runner.counts.get("component", 0) - before
    try:
        component, flaky = prove_component(
            runner,
            result.component,
            result.passing_run,
            at,
            comparisons=questions,
            alternatives=result.alternatives,
        )
    except OutOfTime:
        left = "the repeats that would prove the component"
        runner.lab.time_budget.note_unasked(left)
        return replace(result, passing_run=None, evidence=[*result.evidence, out_of_time(left).why])
    return replace(result, component=component, evidence=[*result.evidence, *flaky])


def _localize(
    runner: LadderRunner,
    stage: Stage,
    at: Step,
    ladder: Sequence[Step],
    all_off: Verdict | None,
    ablation: Sequence[Step],
) -> Localization:
    if stage in FRONT:
        result = localize_front(runner, stage, at, ladder)
        return replace(result, component=result.component or _from_frames(at.outcome, stage))
    if stage in (Stage.DECOMPOSITION, Stage.FX_PASSES) and not runner.baseline.flaky:
        result = localize_pass(runner, stage, at, all_off=all_off)
        if result.component is not None:
            return result
    if stage in _KERNEL:
        result = localize_kernel(runner, stage, at, ablation, all_off=all_off)
        show_fault(runner, result)
        return replace(result, component=result.component or _from_frames(at.outcome, stage))
    return Localization(component=_from_frames(at.outcome, stage))


def _from_frames(outcome: Outcome, stage: Stage) -> Component | None:
    raised = outcome.raised
    if raised is None:
        return None
    hint = frames.innermost(raised.frames, [stage]) or frames.innermost(raised.frames)
    if hint is None or (hint[0] in FRONT and stage not in FRONT):
        return None  # its wrappers run what later stages have made (pytorch#189518)
    frame: Frame = hint[1]
    return Component(kind="function", name=frame.function, detail=f"{frame.file}:{frame.line}")
