"""Splits the kernel stage into lowering, scheduler, code generation and runtime.

Two of the lab's own rungs decide: ``loops`` interprets Inductor's loop IR after lowering, ``scheduled`` after
the scheduler. If the interpreter cannot run it, the frames of a crash and the single switches are used, and
the answer is more cautious.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Step
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import frames, order_conflicts
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.switches import kernel_switches


@dataclass(kw_only=True)
class Split:
    """The stage inside the kernel rung, with the longer ladder and the table of switches.

    ``alternatives`` are explanations that the rungs do not rule out: the interpreter runs fused kernels one
    after another, so an illegal fusion would look like wrong generated code; or a switch fixes the generated
    code but not what the interpreter ran, so the two may fail for different reasons. ``searched`` is the
    stage to search for the component if it is not ``stage``, whose own rung passes.
    """

    stage: Stage
    searched: Stage | None = None
    ladder: list[Step]
    alternatives: list[Considered] = field(default_factory=list)
    ablation: list[Step] = field(default_factory=list)
    component: Component | None = None
    evidence: list[Evidence] = field(default_factory=list)


def split(runner: LadderRunner, ladder: Sequence[Step], *, full: bool) -> Split:
    """Runs the loop IR rungs and the switches, and reads them together."""
    top = ladder[-1]
    inner = runner.ask([(Rung.LOOPS, ()), (Rung.SCHEDULED, ())], "kernel split")
    inner = [step for step in inner if step.verdict is not Verdict.SKIP or step.note]
    longer = [*ladder[:-1], *inner, top]
    ablation = ask_switches(runner, full=full)
    result = Split(stage=Stage.KERNEL, ladder=longer, ablation=ablation)
    loops = _verdict(inner, Rung.LOOPS)
    scheduled = _verdict(inner, Rung.SCHEDULED)
    fixes = {step.switch for step in ablation if step.verdict is Verdict.GOOD}
    unfused, fused = (
        order_conflicts.fault(next((s for s in inner if s.rung is rung), None))
        for rung in (Rung.LOOPS, Rung.SCHEDULED)
    )
    if loops is Verdict.BAD:
        result.stage = Stage.LOWERING
        result.evidence.append(Evidence.of(EvidenceKind.LOOPS_FAIL))
        if unfused is not None:
            result.evidence.append(unfused.evidence(Stage.LOWERING))
            result.component = unfused.component()
        _check_settings_on_loops(runner, result, Rung.LOOPS)
    elif loops is Verdict.GOOD and unfused is not None and not (_crashes(top) or _compile_error(top)):
        _blame_order(result, Stage.LOWERING, unfused)
    elif loops is Verdict.GOOD and scheduled is Verdict.BAD:
        result.stage = Stage.SCHEDULER
        result.evidence.append(Evidence.of(EvidenceKind.SCHEDULED_LOOPS_FAIL))
        result.evidence += [fused.evidence(Stage.SCHEDULER)] if fused else []
        _check_settings_on_loops(runner, result, Rung.SCHEDULED)
    elif loops is Verdict.GOOD and fused is not None and not (_crashes(top) or _compile_error(top)):
        _blame_order(result, Stage.SCHEDULER, fused)
    elif loops is Verdict.GOOD and scheduled is Verdict.GOOD:
        _blame_below_scheduler(runner, result, top, fixes)
        for step in inner[:1]:
            result.alternatives += order_conflicts.left_open(step)
    else:
        _by_frames(result, top, fixes, loops)
    _add_switches(result)
    return result


def ask_switches(runner: LadderRunner, *, full: bool) -> list[Step]:
    """Returns the ablation table: each switch alone, applied to the failing run."""
    switches = kernel_switches(full)
    steps = runner.ask([(Rung.KERNEL, s.settings) for s in switches], "ablation")
    return [replace(step, switch=s.name, label=s.label) for step, s in zip(steps, switches, strict=True)]


def _verdict(steps: Sequence[Step], rung: Rung) -> Verdict:
    return next((step.verdict for step in steps if step.rung is rung), Verdict.SKIP)


def _check_settings_on_loops(runner: LadderRunner, result: Split, rung: Rung) -> None:
    """Checks that a setting which fixes the generated code also fixes the loop IR that it comes from."""
    fixes = [s for s in result.ablation if s.verdict is Verdict.GOOD and s.switch != "fallback"]
    below = runner.ask([(rung, step.settings) for step in fixes], "kernel split")
    apart = [step.label for step, same in zip(fixes, below, strict=True) if same.verdict is not Verdict.GOOD]
    if fixes:
        why = (
            Evidence.of(EvidenceKind.SETTING_MISSES_LOOPS, switches=apart)
            if apart
            else Evidence.of(EvidenceKind.SETTING_FIXES_LOOPS)
        )
        result.alternatives.append(Considered(name="two_failures", open=bool(apart), why=why))


def _blame_order(result: Split, stage: Stage, conflict: order_conflicts.OrderConflict) -> None:
    """Blames a stage whose loop IR is right in the interpreter's order but not in another order.

    Without this, passing rungs would blame code generation (#174074: a repeated index).
    """
    result.stage, result.searched = stage, Stage.KERNEL
    result.evidence.append(conflict.evidence(stage))
    result.component = conflict.component()
    why = Evidence.of(EvidenceKind.ORDER_NOT_ISOLATED)
    result.alternatives.append(Considered(name=order_conflicts.NAME, open=True, why=why))


def _blame_below_scheduler(runner: LadderRunner, result: Split, top: Step, fixes: set[str]) -> None:
    """Blames a part below the scheduler (or fusing), as each loop nest is right as scheduled."""
    result.evidence.append(Evidence.of(EvidenceKind.SCHEDULED_LOOPS_PASS))
    raised = top.outcome.raised
    if "fusion" in fixes and "vectorisation" not in fixes:
        why = Evidence.of(EvidenceKind.FUSION_IN_DOUBT)
        result.alternatives.append(Considered(name="illegal_fusion", open=True, why=why))
    fusing = frames.about_fusion(raised.frames) if raised else None
    hint = frames.innermost(raised.frames, frames.KERNEL_STAGES) if raised else None
    if fusing is not None and "fusion" in fixes:
        result.stage = Stage.SCHEDULER
        result.evidence.append(
            Evidence.of(EvidenceKind.FAILS_WHILE_FUSING, function=fusing.function, file=fusing.file)
        )
    elif "strict_math" in fixes and "vectorisation" not in fixes:
        result.stage = Stage.RUNTIME
        result.evidence.append(Evidence.of(EvidenceKind.PASSES_WITH_STRICT_MATH))
    elif hint is not None and hint[0] is Stage.RUNTIME and not _compile_error(top):
        result.stage = Stage.RUNTIME
        frame = hint[1]
        result.evidence.append(
            Evidence.of(EvidenceKind.FAILS_AFTER_CODEGEN, function=frame.function, file=frame.file)
        )
    elif "fusion" in fixes and "vectorisation" not in fixes and not _crashes(top):
        _fused(runner, result)
    else:
        result.stage = Stage.CODEGEN


def _fused(runner: LadderRunner, result: Split) -> None:
    """Tests whether the fused loop also fails in the interpreter, for a failure that needs fusion."""
    together = runner.one(Rung.SCHEDULED, (("together", True),), "kernel split")
    if together.verdict is Verdict.BAD:
        result.stage = Stage.SCHEDULER
        result.evidence = [
            Evidence.of(EvidenceKind.FUSED_LOOP_FAILS),
            Evidence.of(EvidenceKind.PASSES_WITHOUT_FUSION),
        ]
        return
    result.stage = Stage.KERNEL


def _by_frames(result: Split, top: Step, fixes: set[str], loops: Verdict) -> None:
    """Names the stage from the frames of a crash, if the interpreter could not run the loop IR."""
    if loops is Verdict.DIFFERENT:
        result.evidence.append(Evidence.of(EvidenceKind.LOOPS_FAIL_DIFFERENTLY))
    raised = top.outcome.raised
    hint = frames.innermost(raised.frames, frames.KERNEL_STAGES) if raised else None
    if raised is not None and hint is not None:
        fusing = frames.about_fusion(raised.frames)
        if fusing is not None and "fusion" in fixes:
            result.stage = Stage.SCHEDULER
            result.evidence.append(
                Evidence.of(EvidenceKind.FAILS_IN_FUSING, function=fusing.function, file=fusing.file)
            )
        else:
            result.stage = Stage.CODEGEN if _compile_error(top) else hint[0]
            frame = hint[1]
            result.evidence.append(
                Evidence.of(EvidenceKind.INNERMOST_FRAME, file=frame.file, function=frame.function)
            )


def _compile_error(top: Step) -> bool:
    """Whether the generated C++ does not compile: its writer is at fault, not the compiler's caller."""
    raised = top.outcome.raised
    return raised is not None and (
        "CppCompileError" in raised.type + raised.message or "C++ compile error" in raised.message
    )


def _crashes(top: Step) -> bool:
    raised = top.outcome.raised
    return raised is not None and frames.innermost(raised.frames, frames.KERNEL_STAGES) is not None


def _add_switches(result: Split) -> None:
    passing = [step.label for step in result.ablation if step.verdict is Verdict.GOOD]
    if passing:
        result.evidence.append(Evidence.of(EvidenceKind.PASSES_WITH_SWITCHES, switches=passing))
    narrow = [s for s in result.ablation if s.verdict is Verdict.GOOD and s.switch != "fallback"]
    if narrow and result.stage in (Stage.CODEGEN, Stage.KERNEL, Stage.SCHEDULER):
        result.component = Component(
            kind="switch", name=narrow[0].switch, detail=f"passes with {narrow[0].label}"
        )
