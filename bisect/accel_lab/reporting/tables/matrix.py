"""Renders the matrix of releases and rungs as plain text. Prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabulate import tabulate

from accel_lab.core.text import printable
from accel_lab.reporting.words import matrix as words

from .findings import one_line, paint, wrapped


def text(grid: Mapping[str, Any], *, colour: bool = False, unicode: bool = True, width: int = 120) -> str:
    """Returns the answer in one line, a row per release, and the reasons of cells without a plain answer."""
    blocks = [wrapped(words.headline(grid), width, hang="  ")]
    failure = words.failure(grid)
    if failure:
        blocks.append(wrapped(f"the failure: {one_line(failure, 3 * width)}", width, hang="  "))
    blocks.append(_table(grid, colour, unicode))
    blocks.append("\n".join(wrapped(line, width, hang="  ") for line in _remarks(grid)))
    blocks += [wrapped(f"note: {note}", width, hang="  ") for note in words.notes_of(grid)]
    return "\n\n".join(block for block in blocks if block)


def _table(grid: Mapping[str, Any], colour: bool, unicode: bool) -> str:
    """Renders the table; colour is added after the layout, so that escapes do not count as width."""
    rows = words.rows_of(grid)
    columns = words.columns_of(grid)
    cells = [[printable(row.torch), *(_said(cell, unicode) for cell in row.cells)] for row in rows]
    lines = tabulate(
        cells, headers=["torch", *columns], tablefmt="simple", disable_numparse=True
    ).splitlines()
    if colour:
        for place, row in enumerate(rows, 2):
            at = lines[place].find(" ")
            for cell in row.cells:
                said = _said(cell, unicode)
                at = lines[place].index(said, at)
                shown = paint(said, cell.mark.name, True)
                lines[place] = lines[place][:at] + shown + lines[place][at + len(said) :]
                at += len(shown)
    return "\n".join(line.rstrip() for line in lines)


def _said(cell: words.CellWords, unicode: bool) -> str:
    mark = cell.mark
    short = {"fails differently": "differs", "cannot tell": "skip", "not applicable": "n/a", "not run": ""}
    return f"{mark.symbol if unicode else mark.ascii} {short.get(mark.words, mark.words)}".rstrip()


def _remarks(grid: Mapping[str, Any]) -> list[str]:
    """Returns one line for each release and reason, with the rungs that it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    columns = words.columns_of(grid)
    for row in words.rows_of(grid):
        for column, cell in zip(columns, row.cells, strict=True):
            if cell.mark.name in ("different", "skip") and cell.said:
                found.setdefault((row.torch, one_line(cell.said, 160)), []).append(column)
    return [
        f"torch {torch}, {'every rung' if len(names) == len(columns) else ', '.join(names)}: {said}"
        for (torch, said), names in found.items()
    ]
