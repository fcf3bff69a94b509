"""The grid of releases and rungs: each cell is one run, each row one release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.outcome import Status
from accel_lab.core.record import Record, as_json
from accel_lab.core.stages import LADDER
from accel_lab.core.verdict import Verdict

#: The columns in stack order; others (``mock``, an adapter) are accelerators.
_STEPS = tuple(rung.value for rung in LADDER)


@dataclass(frozen=True, kw_only=True)
class Cell(Record):
    """One run: its verdict and how it ended. ``folder`` contains its outcome, for a link."""

    verdict: Verdict
    status: Status | None = None
    signature: str = ""
    why: str = ""
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    max_abs_error: float | None = None
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Rows are releases, oldest first; columns are rungs and accelerators. A cell may be missing."""

    releases: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)

    def cell(self, release: str, column: str) -> Cell | None:
        """Returns the cell; None if nothing was run."""
        return self.cells.get((release, column))

    def row(self, release: str) -> tuple[Cell | None, ...]:
        """Returns the cells of a release in column order."""
        return tuple(self.cell(release, column) for column in self.columns)

    def starts(self, release: str) -> str | None:
        """Returns the lowest rung from which every judged rung fails; None if the top rung passes."""
        start = None
        for column in reversed([c for c in self.columns if c in _STEPS]):
            cell = self.cell(release, column)
            if cell is None or cell.verdict is Verdict.SKIP:
                continue
            if cell.verdict is not Verdict.BAD:
                break
            start = column
        return start

    def bands(self) -> list[tuple[str, str, str | None]]:
        """Returns spans of neighbouring releases whose failure starts at the same rung: first, last, rung.

        Releases without a judged cell are skipped.
        """
        spans: list[tuple[str, str, str | None]] = []
        for release in self.releases:
            if not any(c and c.verdict in (Verdict.GOOD, Verdict.BAD) for c in self.row(release)):
                continue
            start = self.starts(release)
            if spans and spans[-1][2] == start:
                spans[-1] = (spans[-1][0], release, start)
            else:
                spans.append((release, release, start))
        return spans

    def sentences(self) -> list[str]:
        """Describes the bands in words."""
        return [
            (f"{first} to {last}" if first != last else first)
            + (f": fails from {rung} on" if rung else ": passes")
            for first, last, rung in self.bands()
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "releases": list(self.releases),
            "columns": list(self.columns),
            "rows": [
                {
                    "torch": release,
                    "starts": self.starts(release),
                    "cells": {
                        column: cell.to_json() if (cell := self.cell(release, column)) else None
                        for column in self.columns
                    },
                }
                for release in self.releases
            ],
            "bands": [list(band) for band in self.bands()],
        }


def columns_in_order(columns: Iterable[str]) -> tuple[str, ...]:
    """Returns the ladder's rungs in their order, then the accelerators in the order given."""
    wanted = list(dict.fromkeys(columns))
    steps: Sequence[str] = [step for step in _STEPS if step in wanted]
    return (*steps, *(column for column in wanted if column not in _STEPS))
