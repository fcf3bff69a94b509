"""Describes the matrix of releases and rungs, for its table, page and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung

from . import terms
from .terms import Mark

_MARKS = {mark.name: mark for mark in (terms.GOOD, terms.BAD, terms.DIFFERENT, terms.SKIP)}
#: The mark of a cell without a run.
NOTHING = Mark(name="na", symbol="·", ascii=".", words="not run")


@dataclass(frozen=True, kw_only=True)
class CellWords:
    """One cell: its mark, its text, its time, and the folder of its outcome."""

    mark: Mark
    said: str = ""
    seconds: str = ""
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class RowWords:
    """One release: its cells in column order, and the rung that its failure starts at."""

    torch: str
    cells: tuple[CellWords, ...]
    starts: str = ""


def columns_of(grid: Mapping[str, Any]) -> list[str]:
    """Returns the columns in stack order."""
    return [str(name) for name in _matrix(grid).get("columns", ())]


def rows_of(grid: Mapping[str, Any]) -> list[RowWords]:
    """Returns the releases, oldest first."""
    columns = columns_of(grid)
    return [
        RowWords(
            torch=str(row.get("torch", "")),
            starts=str(row.get("starts") or ""),
            cells=tuple(_cell((row.get("cells") or {}).get(column)) for column in columns),
        )
        for row in _matrix(grid).get("rows", ())
    ]


def _cell(cell: Mapping[str, Any] | None) -> CellWords:
    if not cell:
        return CellWords(mark=NOTHING)
    mark = _MARKS.get(str(cell.get("verdict")), terms.SKIP)
    if cell.get("status") == "not_applicable":
        mark = terms.NOT_APPLICABLE
    error = cell.get("max_abs_error")
    said = [str(cell.get("signature") or ""), str(cell.get("why") or "")]
    if isinstance(error, (int, float)) and error:
        said.append(f"largest absolute error {error:.3g}")
    seconds = cell.get("seconds")
    return CellWords(
        mark=mark,
        said="; ".join(part for part in said if part),
        seconds=f"{seconds:.1f} s" if isinstance(seconds, (int, float)) else "",
        folder=str(cell.get("folder") or ""),
    )


def meaning(column: str) -> str:
    """Describes what a column runs."""
    try:
        return terms.RUNS.get(Rung(column), "")
    except ValueError:
        return f"every region on the accelerator {column}"


def headline(grid: Mapping[str, Any]) -> str:
    """Summarises the grid in one line."""
    said = [str(line) for line in grid.get("sentences", ())]
    return "; ".join(said) or "no release could be judged"


def failure(grid: Mapping[str, Any]) -> str:
    """Describes the failure that the cells are judged against, and the release that showed it; or ""."""
    signature = grid.get("signature")
    if not signature:
        return ""
    return f"{Signature.from_json(signature).line} (as torch {grid.get('seen_on')} shows it)"


def mark_of(grid: Mapping[str, Any]) -> Mark:
    """Returns the mark of the grid: bad if any cell shows the failure, good if any passes."""
    cells = [cell.mark for row in rows_of(grid) for cell in row.cells]
    if terms.BAD in cells:
        return terms.BAD
    return terms.GOOD if terms.GOOD in cells else terms.SKIP


def notes_of(grid: Mapping[str, Any]) -> Sequence[str]:
    return [str(note) for note in grid.get("notes", ())]


def _matrix(grid: Mapping[str, Any]) -> Mapping[str, Any]:
    matrix = grid.get("matrix")
    return matrix if isinstance(matrix, Mapping) else {}
