"""Draws the matrix of releases and rungs: one box per run, marked by sign and colour."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from accel_lab.core.text import printable
from accel_lab.reporting.words import matrix as words

#: Colours that colour-blind readers can tell apart (after Okabe and Ito); the signs say the same.
_FILL = {"good": "#009e73", "bad": "#d55e00", "different": "#e69f00", "skip": "#9aa5b1", "na": "#e6e9ee"}
#: Signs that every font has.
_SIGN = {"good": "ok", "bad": "x", "different": "!", "skip": "?", "na": ""}
DPI = 120


def png(grid: Mapping[str, Any]) -> bytes:
    """Returns the picture as PNG bytes: releases down, rungs across."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    columns, rows = words.columns_of(grid), words.rows_of(grid)
    wide, tall = max(len(columns), 1), max(len(rows), 1)
    figure = Figure(figsize=(2.2 + 0.95 * wide, 1.6 + 0.42 * tall), dpi=DPI, facecolor="white")
    axes = figure.add_subplot()
    for down, row in enumerate(rows):
        for across, cell in enumerate(row.cells):
            name = cell.mark.name
            axes.add_patch(
                Rectangle((across + 0.03, down + 0.06), 0.94, 0.88, facecolor=_FILL[name], edgecolor="none")
            )
            ink = "white" if name in ("good", "bad") else "#1b2129"
            axes.text(across + 0.5, down + 0.5, _SIGN[name], ha="center", va="center", color=ink, fontsize=10)
    axes.set_xlim(0, wide)
    axes.set_ylim(tall, 0)
    axes.set_xticks([n + 0.5 for n in range(len(columns))], columns, fontsize=9)
    axes.set_yticks([n + 0.5 for n in range(len(rows))], [printable(row.torch) for row in rows], fontsize=9)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    marks = {cell.mark.name: cell.mark for row in rows for cell in row.cells}
    handles = [
        Patch(facecolor=_FILL[name], label=f"{_SIGN[name]} {mark.words}") for name, mark in marks.items()
    ]
    if handles:
        axes.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.02),
            ncols=min(len(handles), 5),
            frameon=False,
            fontsize=8,
        )
    figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()
