"""Draws errors: over the values of a run, over a tensor's elements, by size, and by magnitude."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_lab.numerics.dtypes import Array
from accel_lab.numerics.metrics import Metrics
from accel_lab.numerics.pairs import Pair
from accel_lab.reporting.tables.findings import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Maximum cells of a heat map along each side; a cell shows its greatest error.
CELLS = 160
#: Maximum points of a line over a tensor's elements.
POINTS = 600
DPI = 120
#: Dark for small and light for large, also in greyscale.
COLOURS = "cividis"
#: Maximum bars of the histogram, one per power of two.
_BARS = 40


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One picture: file name, title, description, and both formats."""

    name: str
    title: str
    words: str
    svg: str
    png: bytes


def over_depth(pairs: Sequence[Pair]) -> Picture | None:
    """Plots the relative error of each floating-point value, in the order of the run; None without any."""
    measured = [(n, p, p.metrics.relative.rms) for n, p in enumerate(pairs, 1) if p.metrics is not None]
    drawn = [(n, pair, error) for n, pair, error in measured if error is not None and 0 < error < math.inf]
    if not drawn:
        return None
    figure = figure_of(7.2, 3.0)
    axes = figure.add_subplot()
    for same, marker, label in ((True, "o", "agrees"), (False, "X", "differs")):
        some = [(n, error) for n, pair, error in drawn if pair.comparison.same is same]
        if some:
            places, errors = zip(*some, strict=True)
            axes.scatter(places, errors, marker=marker, s=34, label=label, color=_ink(same))
    axes.set_yscale("log")
    axes.set_xlabel("recorded value, in the order of the run")
    axes.set_ylabel("relative error (RMS)")
    _whole(axes.xaxis)
    axes.legend(frameon=False, fontsize=8)
    axes.grid(axis="y", alpha=0.3)
    worst = max(drawn, key=lambda row: row[2])
    first = next((pair for _, pair, _ in drawn if not pair.comparison.same), None)
    words = f"{len(drawn)} values; the greatest error is {worst[2]:.3g} at {worst[1].place}"
    if first is not None:
        words += f"; the first that differs is {first.place}"
    return picture_of("depth", "Error over the run", words, figure)


def of_tensor(name: str, pair: Pair, got: Array, want: Array) -> Picture | None:
    """Plots one tensor's error: where it is, how large, at what magnitude; None if nothing differs."""
    metrics = pair.metrics
    if metrics is None or metrics.different == 0 or got.size < 2:
        return None
    with np.errstate(all="ignore"):
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        apart = np.abs(got.astype(wide) - want.astype(wide))
        size = np.abs(want.astype(wide))
    figure = figure_of(9.6, 3.2)
    where, sizes, magnitudes = figure.subplots(1, 3)
    place = _draw_where(where, figure, apart)
    _draw_histogram(sizes, metrics)
    _draw_by_magnitude(magnitudes, apart, size)
    words = (
        f"{metrics.different} of {metrics.elements} elements differ; {place}; greatest absolute error "
        f"{_number(metrics.absolute.max)}, greatest relative error {_number(metrics.relative.max)}"
    )
    return picture_of(name, one_line(pair.place, 100), words, figure)


def _draw_where(axes: Axes, figure: Figure, apart: Array) -> str:
    """Draws a line for one dimension, a map for two, and the worst slice for more; returns a description."""
    finite = np.where(np.isfinite(apart), apart, np.nan)
    if apart.ndim <= 1:
        line, step = _thinned(finite.reshape(-1))
        axes.plot(np.arange(line.size) * step, line, color=_ink(False), linewidth=0.9)
        axes.set_xlabel("index in dimension 0" if apart.ndim else "index")
        _whole(axes.xaxis)
        axes.set_ylabel("absolute error")
        axes.set_title("where", fontsize=9)
        return "a line over the only dimension"
    index: tuple[int, ...] = ()
    if apart.ndim > 2:
        by_slice = np.nan_to_num(finite).reshape(*apart.shape[:-2], -1).max(axis=-1)
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(by_slice)), by_slice.shape))
    table = finite[index] if index else finite
    cells = _blocks(table)
    image = axes.imshow(
        cells,
        aspect="auto",
        cmap=COLOURS,
        interpolation="nearest",
        extent=(0, table.shape[1], table.shape[0], 0),
    )
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
    bar.ax.tick_params(labelsize=7)
    label = f"[{', '.join(map(str, index))}, :, :]" if index else "[:, :]"
    axes.set_title(f"absolute error at {label}", fontsize=9)
    axes.set_xlabel(f"index in dimension {apart.ndim - 1}")
    axes.set_ylabel(f"index in dimension {apart.ndim - 2}")
    _whole(axes.xaxis)
    _whole(axes.yaxis)
    return f"the map shows {label}, the slice with the greatest error" if index else "the map shows all of it"


def _draw_histogram(axes: Axes, metrics: Metrics) -> None:
    rows = metrics.histogram[-_BARS:]
    powers, counts = [power for power, _ in rows], [count for _, count in rows]
    axes.bar(powers, counts, width=0.9, color="#56789a")
    if len(rows) > 1:
        axes.set_yscale("log")
    axes.set_title("how large", fontsize=9)
    axes.set_xlabel("relative error, power of two")
    axes.set_ylabel("elements that differ")


def _draw_by_magnitude(axes: Axes, apart: Array, size: Array) -> None:
    usable = np.isfinite(apart) & (size > 0) & np.isfinite(size)
    axes.set_title("at what magnitude", fontsize=9)
    axes.set_xlabel("magnitude of the value")
    axes.set_ylabel("relative error")
    if not usable.any():
        return
    powers = np.floor(np.log2(size[usable])).astype(int)
    ratio = apart[usable] / size[usable]
    found = sorted(set(powers.tolist()))
    most = [float(ratio[powers == power].max()) for power in found]
    middle = [float(np.median(ratio[powers == power])) for power in found]
    places = [2.0**power for power in found]
    axes.plot(places, most, marker="^", markersize=4, linewidth=0.9, color=_ink(False), label="greatest")
    axes.plot(places, middle, marker="o", markersize=3, linewidth=0.9, color=_ink(True), label="median")
    axes.set_xscale("log", base=2)
    if any(value > 0 for value in most):
        axes.set_yscale("log", nonpositive="mask")  # otherwise a line leads to a zero, outside the plot
    axes.legend(frameon=False, fontsize=7)


def _whole(axis: Axis) -> None:
    """Puts ticks at integers: there is no element 2.5."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _thinned(values: Array) -> tuple[Array, int]:
    """Returns at most ``POINTS`` values, each the maximum of equally many neighbours, and the step."""
    step = -(-values.size // POINTS)
    padded = np.full(step * -(-values.size // step), np.nan)
    padded[: values.size] = values
    return np.nanmax(np.nan_to_num(padded.reshape(-1, step), nan=0.0), axis=1), step


def _blocks(table: Array) -> Array:
    """Returns the table with at most ``CELLS`` rows and columns, each the maximum of those it covers."""
    table = np.nan_to_num(table, nan=0.0)
    for axis in (0, 1):
        step = -(-table.shape[axis] // CELLS)
        if step > 1:
            table = np.maximum.reduceat(table, np.arange(0, table.shape[axis], step), axis=axis)
    return table


def figure_of(width: float, height: float) -> Figure:
    """Returns an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")


def picture_of(name: str, title: str, words: str, figure: Figure) -> Picture:
    """Returns the picture in both formats; text is drawn as paths, and files carry no date."""
    import matplotlib as mpl

    for axes in figure.axes:
        axes.tick_params(labelsize=7)
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "accel-lab"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    data = io.BytesIO()
    figure.savefig(data, format="png", metadata={"Software": None})
    return Picture(name=name, title=title, words=words, svg=text.getvalue(), png=data.getvalue())


def _ink(same: bool) -> str:
    return "#7d8794" if same else "#b3470f"


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:.3g}"
