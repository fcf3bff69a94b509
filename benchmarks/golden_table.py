"""The committed table of verdicts: one line for each golden case and build, so that a change shows in a diff.

A run of some cases, or of one build, replaces its own lines only. What a run costs is told as a ratio to a
plain run of the same script in the same session, in steps of a half: two sessions differ by less than that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tables

Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Line:
    """What was said of one case on one build; ``ratio`` is empty where no plain run was timed."""

    case: str
    build: str
    want: str
    stage: str
    component: str
    confidence: str
    probes: int
    ratio: str

    @property
    def key(self) -> Key:
        return (self.case, self.build)

    @property
    def verdict(self) -> tuple[str, str, str]:
        return (self.stage, self.component, self.confidence)

    @property
    def words(self) -> str:
        """The verdict for a reader."""
        told = f"{self.stage} {self.component}".rstrip()
        return f"{told} ({self.confidence})" if self.confidence else told


@dataclass(frozen=True, kw_only=True)
class Changes:
    """``verdicts`` is what must not change unseen; ``costs`` and ``new`` are worth a line."""

    verdicts: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join([*self.verdicts, *self.costs, *self.new]) or "nothing has changed"


def coarse(ratio: float | None) -> str:
    """A ratio to the nearest half."""
    return "" if ratio is None else f"{round(ratio * 2) / 2:.1f}"


def read(path: Path) -> dict[Key, Line]:
    """The lines of a table; none where there is no file."""
    return {line.key: line for line in tables.read(path, Line)}


def write(path: Path, lines: Mapping[Key, Line]) -> None:
    """All lines, sorted by case and by release, not by their digits."""
    tables.write(path, Line, (lines[key] for key in sorted(lines, key=_order)))


def merged(old: Mapping[Key, Line], new: Iterable[Line], cases: Collection[str]) -> dict[Key, Line]:
    """The old lines with the new ones in their places; those of cases that are gone are dropped."""
    kept = {key: line for key, line in old.items() if line.case in cases}
    return {**kept, **{line.key: line for line in new}}


def compared(old: Mapping[Key, Line], new: Sequence[Line]) -> Changes:
    """What the new lines say otherwise than the old ones; what was not run again is not missed."""
    verdicts, costs, fresh = [], [], []
    for line in sorted(new, key=lambda line: _order(line.key)):
        name, was = f"{line.case} on {line.build}", old.get(line.key)
        if was is None:
            fresh.append(f"{name}: new: {line.words}")
        elif was.verdict != line.verdict:
            verdicts.append(f"{name}: {was.words} -> {line.words}, want {line.want}")
        elif (was.probes, was.ratio) != (line.probes, line.ratio):
            costs.append(f"{name}: {_cost(was)} -> {_cost(line)}")
    return Changes(verdicts=tuple(verdicts), costs=tuple(costs), new=tuple(fresh))


def _cost(line: Line) -> str:
    return f"{line.probes} probes" + (f", {line.ratio} plain runs" if line.ratio else "")


def _order(key: Key) -> tuple[str, tuple[tuple[int, str], ...]]:
    return key[0], tables.by_release(key[1])
