"""Combines releases and stages: whether the same stage fails in every release, and where it was fixed.

At a flip the ladder runs on both sides. The bad side names the stage. The good side says more than "passes":
if the first failing rung fails there too, although the whole passes, the fault is still there and something
below hides it. If it passes, the change lies in that stage or above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accel_lab.core.releases.versions import Flip, StagesAcrossFlips
from accel_lab.core.stages import BLAMES, LADDER, Rung
from accel_lab.core.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Laddered:
    """The ladder's result on one release: the culprit's stage and component, and each rung's verdict."""

    torch: str
    stage: str = ""
    component: str = ""
    rungs: Mapping[Rung, Verdict] = field(default_factory=dict)

    @property
    def starts(self) -> Rung | None:
        """The lowest rung from which every judged rung fails; None for a ladder that passes."""
        start = None
        for rung in reversed(LADDER):
            verdict = self.rungs.get(rung, Verdict.SKIP)
            if verdict is Verdict.BAD:
                start = rung
            elif verdict is not Verdict.SKIP:
                break
        return start


def two_axes(flips: Sequence[Flip], ladders: Mapping[str, Laddered]) -> StagesAcrossFlips:
    """Describes all flips of a line in one sentence. ``ladders`` are those that were run, by release."""
    sides = [(flip, ladders.get(_bad(flip)), ladders.get(_good(flip))) for flip in flips]
    stages = tuple(bad.stage if bad else "" for _, bad, _ in sides)
    known = [stage for stage in stages if stage]
    same = len(set(known)) == 1 if len(known) > 1 else None
    parts: list[str] = []
    last_stage = ""
    for flip, bad, good in sides:
        stage = bad.stage if bad else ""
        parts.append(_part(flip, stage if stage != last_stage else "", bad, good))
        last_stage = stage or last_stage
    notes = []
    if same is True:
        notes.append(f"the failing stage is the same at every flip: {known[0]}")
    elif same is False:
        pairs = ", ".join(f"{bad.stage} in {bad.torch}" for _, bad, _ in sides if bad and bad.stage)
        notes.append(f"the failing stage is not the same at every flip: {pairs}; these may be two faults")
    notes += _components(sides)
    return StagesAcrossFlips(sentence="; ".join(parts), stages=stages, same=same, notes=tuple(notes))


def where_changed(bad: Laddered, good: Laddered) -> str:
    """Says where the change between two releases lies: ``below fx``, ``in fx_passes or above it``, or ""."""
    start = bad.starts
    if start is None:
        return ""
    there = good.rungs.get(start, Verdict.SKIP)
    if there is Verdict.BAD:
        # The fault remains on the good side; a part below this rung hides it.
        return f"below {start}"
    if there is Verdict.GOOD:
        return f"in {bad.stage or BLAMES[start].value}" + ("" if start is LADDER[0] else " or above it")
    return ""


def _part(flip: Flip, stage: str, bad: Laddered | None, good: Laddered | None) -> str:
    """Describes one flip; ``stage`` is empty if it was already named."""
    where = where_changed(bad, good) if bad and good else ""
    hidden = where.startswith("below")
    release = flip.at if not flip.between else f"{flip.at} (or one of {', '.join(flip.between)})"
    named = f" in {stage}" if stage else ""
    if flip.kind == "fixed":
        by = f" by a change {where}" if where else ""
        still = ", which hides the fault rather than fixing it" if hidden and bad and bad.stage else ""
        head = f"{stage} up to {flip.after}; " if stage else ""
        return f"{head}fixed in {release}{by}{still}"
    verb = "broken again in" if flip.kind == "broken_again" else "since"
    shown = f" (older, shown by a change {where})" if hidden else ""
    if flip.kind == "broken_again":
        return f"{verb} {release}{named}{shown}"
    return f"{stage + ' ' if stage else ''}{verb} {release}{shown}"


def _components(sides: Sequence[tuple[Flip, Laddered | None, Laddered | None]]) -> list[str]:
    seen = [bad for _, bad, _ in sides if bad and bad.component]
    names = {bad.component for bad in seen}
    if len(seen) < 2:
        return []
    if len(names) == 1:
        return [f"and so is the component: {names.pop()}"]
    return ["the component differs: " + ", ".join(f"{bad.component} in {bad.torch}" for bad in seen)]


def _bad(flip: Flip) -> str:
    return flip.after if flip.kind == "fixed" else flip.at


def _good(flip: Flip) -> str:
    return flip.at if flip.kind == "fixed" else flip.after
