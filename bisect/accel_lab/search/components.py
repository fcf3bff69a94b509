"""Names the part of a stage at fault: a decomposition, an FX pass, an operator's lowering.

The child numbers every application of a decomposition, pass or lowering in the order in which it
happens (torch's own bisector asks at the same places). The culprit is found by switching halves of
them off, and named only if switching off that one alone cures the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accel_lab.core.findings import Component, Step
from accel_lab.core.outcome import Frame, Outcome
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict

from . import frames
from .climb import Climber

#: For each stage: the subsystems whose applications are searched, the rung to ask, the word for one of them.
_SEARCHES: dict[Stage, tuple[tuple[str, ...], Rung, str]] = {
    Stage.DECOMPOSITION: (("decomposition",), Rung.DECOMP, "decomposition"),
    Stage.FX_PASSES: (
        ("pre_grad_passes", "joint_graph_passes", "post_grad_passes"),
        Rung.FX,
        "pass",
    ),
    Stage.LOWERING: (("lowerings",), Rung.LOOPS, "op"),
    Stage.SCHEDULER: (("lowerings",), Rung.KERNEL, "op"),
    Stage.CODEGEN: (("lowerings",), Rung.KERNEL, "op"),
    Stage.KERNEL: (("lowerings",), Rung.KERNEL, "op"),
}


def name_component(climber: Climber, stage: Stage, at: Step) -> tuple[Component | None, list[str]]:
    """The component of ``stage`` and the evidence for it; from frames where nothing can be switched."""
    if stage in _SEARCHES:
        groups, rung, word = _SEARCHES[stage]
        named = _search(climber, stage, groups, rung, word, at)
        if named is not None:
            return named
    return _from_frames(at.outcome, stage), []


def _search(
    climber: Climber, stage: Stage, groups: Sequence[str], rung: Rung, word: str, at: Step
) -> tuple[Component, list[str]] | None:
    if climber.baseline.flaky:
        return None  # every question would have to be asked many times; the stage is told without it
    at = at if at.rung is rung and "applied" in at.outcome.facts else climber.one(rung, (), "component")
    applied: dict[str, list[str]] = at.outcome.facts.get("applied") or {}
    for group in groups:
        names = applied.get(group) or []
        if not names:
            continue

        def cured(off: Sequence[int], group: str = group) -> bool:
            step = climber.one(rung, (("off", {group: sorted(off)}),), "component")
            return step.verdict is Verdict.GOOD

        found = smallest_cure(len(names), cured)
        if found is None:
            continue
        told = [f"{group} number {n + 1} of {len(names)}: {names[n]}" for n in found]
        return (
            Component(kind=word, name=_short_name(names[found[0]], word), detail="; ".join(told)[:300]),
            [f"switching off only {'; '.join(told)} cures it at {rung}"],
        )
    return None


def smallest_cure(count: int, cured: Callable[[Sequence[int]], bool], most: int = 40) -> list[int] | None:
    """A smallest set of applications that cures the failure when switched off, found by halving.

    Starts from everything off, which must cure; None if it does not. The set is 1-minimal unless the
    number of questions runs out. A crash behind another crash may need several.
    """
    asked = 0

    def ask(off: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return asked <= most and cured(off)

    current = list(range(count))
    if not current or not ask(current):
        return None
    pieces = 2
    while len(current) > 1:
        size = max(1, -(-len(current) // pieces))
        parts = [current[i : i + size] for i in range(0, len(current), size)]
        smaller = next((part for part in parts if ask(part)), None)
        if smaller is not None:
            current, pieces = smaller, 2
            continue
        without = None
        if len(parts) > 2:
            rests = [[n for n in current if n not in part] for part in parts]
            without = next((rest for rest in rests if ask(rest)), None)
        if without is not None:
            current, pieces = without, max(2, pieces - 1)
        elif size == 1 or asked > most:
            break
        else:
            pieces = min(len(current), pieces * 2)
    return current


def _short_name(text: str, word: str) -> str:
    """The operator's or pass's name out of what the child noted."""
    if word == "op" and "target=" in text:
        return text.split("target=", 1)[1]
    return text[:120]


def _from_frames(outcome: Outcome, stage: Stage) -> Component | None:
    raised = outcome.raised
    if raised is None:
        return None
    hint = frames.innermost(raised.frames, [stage]) or frames.innermost(raised.frames)
    if hint is None:
        return None
    frame: Frame = hint[1]
    return Component(kind="function", name=frame.function, detail=f"{frame.file}:{frame.line}")
