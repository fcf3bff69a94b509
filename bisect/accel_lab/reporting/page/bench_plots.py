"""Draws a benchmark: latency, first call, memory and error, a bar for each model and backend."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_lab.core.benchmark import Benchmark, Measurement
from accel_lab.reporting.tables.findings import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that colour-blind readers can tell apart, on dark and light ground (after Okabe and Ito).
COLOURS = ("#8a8f98", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#a6761d")
INK = "#7d8794"  # readable on the page's light and dark background


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One picture: file name, title, description, and the SVG text."""

    name: str
    title: str
    words: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class _Kind:
    name: str
    title: str
    unit: str
    value: Callable[[Measurement], float | None]
    ends: Callable[[Measurement], tuple[float, float] | None]
    log: bool = False


def _latency(row: Measurement) -> float | None:
    return row.latency_ms.median if row.latency_ms else None


def _quartiles(row: Measurement) -> tuple[float, float] | None:
    return (row.latency_ms.q1, row.latency_ms.q3) if row.latency_ms else None


def _none(row: Measurement) -> tuple[float, float] | None:
    return None


def _error(row: Measurement) -> float | None:
    return row.distance.to_float64 if row.distance else None


KINDS: tuple[_Kind, ...] = (
    _Kind(
        name="latency",
        title="Latency: median and quartiles",
        unit="ms",
        value=_latency,
        ends=_quartiles,
        log=True,
    ),
    _Kind(
        name="first-call",
        title="First call, compilation included",
        unit="s",
        value=lambda row: row.first_call_s,
        ends=_none,
        log=True,
    ),
    _Kind(
        name="memory",
        title="Peak memory of later calls",
        unit="MB",
        value=lambda row: row.peak_mb,
        ends=_none,
    ),
    _Kind(
        name="error",
        title="Greatest error against a float64 run",
        unit="absolute",
        value=_error,
        ends=_none,
        log=True,
    ),
)


def plots(benchmark: Benchmark) -> list[Plot]:
    """Returns the pictures that have data to show."""
    found = []
    for kind in KINDS:
        bars = [(row, value) for row in benchmark.rows if _usable(value := kind.value(row), kind.log)]
        if bars:
            words = "; ".join(f"{row.model} {row.backend} {value:.3g} {kind.unit}" for row, value in bars)
            found.append(
                Plot(name=kind.name, title=kind.title, words=words, svg=_draw(benchmark, kind, bars))
            )
    return found


def _usable(value: float | None, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _draw(benchmark: Benchmark, kind: _Kind, bars: Sequence[tuple[Measurement, Any]]) -> str:
    """Draws horizontal bars, a group for each model, so that names stay readable."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(benchmark.backends)}
    models = [model for model in benchmark.models if any(row.model == model for row, _ in bars)]
    # Text as paths needs no font in the viewer; a fixed salt makes the SVG text reproducible.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "accel-lab", "font.size": 9.0}):
        figure = Figure(figsize=(6.4, 0.7 + 0.26 * len(bars) + 0.3 * len(models)))
        axes = figure.add_subplot()
        places, names, place = [], [], 0.0
        for model in models:
            axes.text(0.0, place - 0.15, _label(model), transform=_left_edge(axes), color=INK, weight="bold")
            for row, value in bars:
                if row.model != model:
                    continue
                place += 1.0
                axes.barh(place, value, height=0.72, color=colours[row.backend])
                _whisker(axes, place, kind.ends(row))
                axes.annotate(
                    f" {value:.3g}",
                    (max(value, (kind.ends(row) or (0.0, 0.0))[1]), place),
                    va="center",
                    color=INK,
                    fontsize=8,
                )
                places.append(place)
                names.append(_label(row.backend))
            place += 1.2
        axes.set_yticks(places, names)
        axes.set_ylim(place - 0.4, -0.6)
        _scale(axes, kind, [value for _, value in bars])
        axes.set_xlabel(kind.unit + (", logarithmic" if kind.log else ""), color=INK)
        axes.tick_params(colors=INK, which="both")
        axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(INK)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    return stream.getvalue()


def _label(name: str) -> str:
    """Returns a name that matplotlib draws literally: a dollar sign would start a formula."""
    return one_line(name, 24).replace("$", r"\$")


def _left_edge(axes: Axes) -> Any:
    """Returns coordinates from 0 to 1 across the plot and in data units along the bars."""
    from matplotlib.transforms import blended_transform_factory

    return blended_transform_factory(axes.transAxes, axes.transData)


def _scale(axes: Axes, kind: _Kind, values: Sequence[float]) -> None:
    """Starts the axis at zero, or the decade below the minimum, with room for the longest bar's number."""
    least, most = min(values), max(values)
    if not kind.log:
        axes.set_xlim(0, most * 1.16 or 1.0)
        return
    axes.set_xscale("log")
    left = 10.0 ** math.floor(math.log10(least) - 0.2)
    axes.set_xlim(left, most * (most / left) ** 0.16)


def _whisker(axes: Axes, place: float, ends: tuple[float, float] | None) -> None:
    """Draws a dark line with a light rim, visible on the bar and on light and dark backgrounds."""
    if ends is not None:
        for colour, width in (("#f6f7f9", 3.6), ("#1b2129", 1.8)):
            axes.plot(ends, (place, place), color=colour, linewidth=width, solid_capstyle="butt")
