"""Draws the error of each operator against float64, compiled and eager."""

from __future__ import annotations

import itertools
import math

from accel_lab.numerics.depth import Depth, Operator

from .diff_plots import Picture, figure_of, picture_of

#: Maximum operators of one picture; the first that differs is among them.
MOST = 160
_COMPILED, _EAGER, _DIFFERS = "#2f62b5", "#7d8794", "#b3470f"


def over_operators(depth: Depth) -> Picture | None:
    """Plots the greatest absolute errors in graph order; None without a floating-point value."""
    rated = [one for one in _near_first(depth) if one.error is not None]
    drawn = [one for one in rated if math.isfinite(one.error or 0.0) and math.isfinite(one.eager or 0.0)]
    if not drawn:
        return None
    least = min((v for one in drawn for v in (one.error, one.eager) if v), default=1e-16) / 4
    figure = figure_of(9.6, 3.4)
    axes = figure.add_subplot()
    places = range(len(drawn))
    compiled = [max(one.error or 0.0, least) for one in drawn]
    axes.plot(places, [max(one.eager or 0.0, least) for one in drawn], color=_EAGER, ls="--", label="eager")
    axes.plot(places, compiled, color=_COMPILED, marker="o", ms=3, lw=1, label="compiled")
    wrong = [place for place, one in enumerate(drawn) if one.differs]
    if wrong:
        marks = [compiled[place] for place in wrong]
        axes.scatter(wrong, marks, marker="X", s=46, color=_DIFFERS, label="outside", zorder=3)
    for place, (one, two) in enumerate(itertools.pairwise(drawn), 1):
        if one.module != two.module:
            axes.axvline(place - 0.5, color=_EAGER, lw=0.5, alpha=0.5)
    axes.set_yscale("log")
    axes.set_xlabel("operator, in the order of the graph; lines part modules")
    axes.set_ylabel("greatest error against float64")
    if len(drawn) <= 30:
        axes.set_xticks(list(places), [one.node for one in drawn], rotation=60, ha="right")
    axes.legend(frameon=False, fontsize=8)
    first = depth.first
    words = f"{len(drawn)} operators of {len(depth.operators)}"
    words += "; none diverges from float64" if first is None else f"; the first to diverge is {first.node}"
    return picture_of("layers", "Error over the operators", words, figure)


def _near_first(depth: Depth) -> tuple[Operator, ...]:
    first = next((place for place, one in enumerate(depth.operators) if one.differs), 0)
    start = max(0, min(first - MOST // 2, len(depth.operators) - MOST))
    return depth.operators[start : start + MOST]
