"""Names the part of a stage at fault: a decomposition, an FX pass, an operator's lowering.

The child notes every application of a decomposition, pass or lowering, in the order in which it
happens (torch's own bisector asks at the same places). The culprit is found by switching halves of
them off, and named only if switching off that one alone cures the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Frame, Outcome
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict

from . import frames
from .climb import Climber

#: For each stage: the subsystems whose applications are searched, the rung to ask, the word for one of them.
_SEARCHES: dict[Stage, tuple[tuple[str, ...], Rung, str]] = {
    Stage.DECOMPOSITION: (("decomposition",), Rung.DECOMP, "decomposition"),
    Stage.FX_PASSES: (("pre_grad_passes", "joint_graph_passes", "post_grad_passes"), Rung.FX, "pass"),
    Stage.LOWERING: (("lowerings",), Rung.LOOPS, "op"),
    Stage.CODEGEN: (("lowerings",), Rung.KERNEL, "op"),
    Stage.KERNEL: (("lowerings",), Rung.KERNEL, "op"),
}

#: Pass functions that torch calls without asking its bisector; some are indispensable.
_FUNCTIONS = "pass_functions"

#: One application: the subsystem, and its name with its turn among those of that name.
Item = tuple[str, str]


@dataclass(kw_only=True)
class Named:
    """What was found inside a stage: the component, the evidence in words, things to look at."""

    component: Component | None = None
    evidence: list[str] = field(default_factory=list)
    exhibits: list[Exhibit] = field(default_factory=list)


def name_component(
    climber: Climber, stage: Stage, at: Step, *, all_off: Verdict | None = None
) -> Named:
    """The component of ``stage`` and the evidence for it; from frames where nothing can be switched.

    ``all_off`` is the verdict with everything left out, where that was asked already.
    """
    if stage in _SEARCHES and not climber.baseline.flaky:
        # With a flaky script every question would have to be asked many times; it is told without this.
        groups, rung, word = _SEARCHES[stage]
        at = at if at.rung is rung and "applied" in at.outcome.facts else climber.one(rung, (), "component")
        applied: dict[str, list[str]] = at.outcome.facts.get("applied") or {}
        found = _by_halving(climber, rung, applied, groups, all_off)
        if found is None and stage is Stage.FX_PASSES:
            found = _one_by_one(climber, rung, applied.get(_FUNCTIONS) or [])
        if found is not None:
            told = [f"{key} of {group}" for group, key in found]
            names = list(dict.fromkeys(_short_name(key, word) for _, key in found))
            detail = "; ".join(told)[:300]
            return Named(
                component=Component(
                    kind=word,
                    name=", ".join(names)[:120],
                    detail=detail,
                    confidence=Confidence.PROVEN if len(found) == 1 else Confidence.LIKELY,
                ),
                evidence=[f"leaving out only {detail} cures it at {rung}"],
            )
    return Named(component=_from_frames(at.outcome, stage))


def _by_halving(
    climber: Climber,
    rung: Rung,
    applied: Mapping[str, Sequence[str]],
    groups: Sequence[str],
    all_off: Verdict | None,
) -> list[Item] | None:
    items = [(group, key) for group in groups for key in applied.get(group) or ()]

    def cured(off: Sequence[Item]) -> bool:
        if all_off is not None and len(off) == len(items):
            return all_off is Verdict.GOOD
        step = climber.one(rung, (("off", _as_switch(off)),), "component")
        return step.verdict is Verdict.GOOD

    return smallest_cure(items, cured)


def _one_by_one(climber: Climber, rung: Rung, names: Sequence[str]) -> list[Item] | None:
    """Leave out each kind of function alone: some cannot be left out, so halving would learn nothing."""
    kinds = sorted({_bare(key) for key in names})
    every = {kind: [(_FUNCTIONS, key) for key in names if _bare(key) == kind] for kind in kinds}
    steps = climber.ask([(rung, (("off", _as_switch(every[kind])),)) for kind in kinds], "component")
    cures = [kind for kind, step in zip(kinds, steps, strict=True) if step.verdict is Verdict.GOOD]
    return every[cures[0]] if len(cures) == 1 else None


def _as_switch(items: Sequence[Item]) -> dict[str, list[str]]:
    switch: dict[str, list[str]] = {}
    for group, key in items:
        switch.setdefault(group, []).append(key)
    return {group: sorted(keys) for group, keys in switch.items()}


def _bare(key: str) -> str:
    """The name without its turn."""
    return key.rsplit("#", 1)[0]


def smallest_cure(
    items: Sequence[Item], cured: Callable[[Sequence[Item]], bool], most: int = 40
) -> list[Item] | None:
    """A smallest set of applications that cures the failure when left out, by delta debugging.

    Starts from everything left out, which must cure; None if it does not. The set is 1-minimal unless
    the questions run out (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input").
    """
    asked = 0

    def ask(off: Sequence[Item]) -> bool:
        nonlocal asked
        asked += 1
        return asked <= most and cured(off)

    current = list(items)
    if not current or not ask(current):
        return None
    pieces = 2
    while len(current) > 1:
        size = -(-len(current) // pieces)
        parts = [current[i : i + size] for i in range(0, len(current), size)]
        smaller = next((part for part in parts if ask(part)), None)
        if smaller is not None:
            current, pieces = smaller, 2
            continue
        rests = [[n for n in current if n not in part] for part in parts] if len(parts) > 2 else []
        without = next((rest for rest in rests if ask(rest)), None)
        if without is not None:
            current, pieces = without, max(2, pieces - 1)
        elif size == 1 or asked > most:
            break
        else:
            pieces = min(len(current), pieces * 2)
    return current


def _short_name(key: str, word: str) -> str:
    """The operator's or pass's name out of what the child noted."""
    name = _bare(key)
    if word == "op" and "target=" in name:
        return name.split("target=", 1)[1]
    return name[:120]


def _from_frames(outcome: Outcome, stage: Stage) -> Component | None:
    raised = outcome.raised
    if raised is None:
        return None
    hint = frames.innermost(raised.frames, [stage]) or frames.innermost(raised.frames)
    if hint is None:
        return None
    frame: Frame = hint[1]
    return Component(kind="function", name=frame.function, detail=f"{frame.file}:{frame.line}")
