"""Computes the ladder as a staircase: positions of its steps for an inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten

from accel_lab.core.findings import Findings, Step
from accel_lab.core.stages import BLAMES, LADDER, Rung
from accel_lab.reporting.words import terms

WIDTH = 360
_TOP = 8
_HEIGHT = 38
_GAP = 6
_INDENT = 9


@dataclass(frozen=True, kw_only=True)
class Stair:
    """One step: a box with a symbol, the rung's name, the verdict in words, and what the rung adds."""

    x: int
    y: int
    width: int
    height: int
    mark: str
    symbol: str
    rung: str
    said: str
    adds: str
    off_ladder: bool
    first_bad: bool


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All steps, highest first, and the height at which graphs end and kernels begin."""

    width: int
    height: int
    stairs: tuple[Stair, ...]
    divide_y: int | None


def draw(findings: Findings) -> Picture | None:
    """Returns the staircase of a ladder, uncompiled script at the bottom; None without a ladder."""
    if not findings.ladder:
        return None
    steps = by_height(findings)
    bad = terms.first_bad(findings)
    levels = [rung for rung in LADDER if any(step.rung is rung for step in steps)]
    stairs: list[Stair] = []
    y, divide = _TOP, None
    for step in steps:
        off_ladder = step.rung not in LADDER
        if divide is None and stairs and not _is_kernel(step):
            divide = y + _GAP
            y += 3 * _GAP
        height = 26 if off_ladder else _HEIGHT
        x = _indent(step.rung, levels)
        stairs.append(
            Stair(
                x=x,
                y=y,
                width=WIDTH - x - 4,
                height=height,
                mark=terms.mark_of(step).name,
                symbol=terms.mark_of(step).symbol,
                rung=step.rung.value,
                said=terms.mark_of(step).words,
                adds=shorten(step.label or terms.STAGES[BLAMES[step.rung]], 40, placeholder="…"),
                off_ladder=off_ladder,
                first_bad=step is bad,
            )
        )
        y += height + _GAP
    return Picture(width=WIDTH, height=y + 2, stairs=tuple(stairs), divide_y=divide)


def by_height(findings: Findings) -> list[Step]:
    """Returns the steps of the ladder, highest rung first."""
    order = list(Rung)
    # An accelerator's rows share a rung; the later one is the higher.
    return sorted(findings.ladder, key=lambda step: order.index(step.rung))[::-1]


def _is_kernel(step: Step) -> bool:
    return step.rung in (Rung.KERNEL, Rung.LOOPS, Rung.SCHEDULED)


def _indent(rung: Rung, levels: list[Rung]) -> int:
    """Returns the x position: higher steps are further right, and checks are indented from the step below."""
    order = list(Rung)
    below = [level for level in levels if order.index(level) <= order.index(rung)]
    return 4 + _INDENT * max(len(below) - 1, 0) + (0 if rung in LADDER else 2 * _INDENT)
