"""The piece of torch's own sources that makes the difference at a flip between two releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.record import Record, as_json


@dataclass(frozen=True, kw_only=True)
class Piece(Record):
    """A statement or a method. ``lines``: its first and last in the newer release, from 1; empty: unknown."""

    file: str
    symbol: str
    lines: tuple[int, ...] = field(default=(), metadata=as_json(sparse=True))


@dataclass(frozen=True, kw_only=True)
class FilePatch(Record):
    """What a backport exchanges in one file. ``sha256`` is the file's as it is.

    ``hunks`` are the first line that goes, the one behind the last, from 0, and the lines that come instead.
    """

    file: str
    sha256: str
    hunks: tuple[tuple[int, int, tuple[str, ...]], ...]

    @property
    def lines(self) -> int:
        """How many lines go and come."""
        return sum(len(new) + last - first for first, last, new in self.hunks)


@dataclass(frozen=True, kw_only=True)
class Commit(Record):
    """One commit. ``pull`` is the number of its pull request, None where the commit does not say it."""

    sha: str
    subject: str
    pull: int | None = None


@dataclass(frozen=True, kw_only=True)
class FlipChange(Record):
    """What was found, or ``why`` nothing was. ``file`` and ``symbol`` are those of the most telling piece.

    ``both_ways``: the failing release passes with the piece exchanged, and the passing one fails; None where
    the second was not asked, or ended in another way. ``complete`` is False where the time was over before it
    was narrowed down. ``commits`` are those that touched the pieces' lines, from a clone, None without one;
    ``git`` says why the clone could not tell, ``log`` are the commands that would. ``candidates`` pieces
    differed at first.
    """

    found: bool
    why: str = ""
    file: str = ""
    symbol: str = ""
    diff: str = ""
    both_ways: bool | None = None
    complete: bool = True
    pieces: tuple[Piece, ...] = ()
    patch: tuple[FilePatch, ...] = ()
    log: tuple[str, ...] = field(default=(), metadata=as_json(sparse=True))
    git: str = field(default="", metadata=as_json(sparse=True))
    commits: tuple[Commit, ...] | None = field(default=None, metadata=as_json(sparse=True))
    runs: int = 0
    candidates: int = 0

    def to_json(self) -> dict[str, Any]:
        """Only why it was not found, and what was tried, where it was not."""
        row = super().to_json()
        if self.found:
            row.pop("why")
            return row
        return {key: row[key] for key in ("found", "why", "runs", "candidates")}
