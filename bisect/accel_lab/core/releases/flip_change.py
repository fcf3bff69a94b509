"""The change in torch's Python sources that causes a flip between two releases."""

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
    """The changes of a backport in one file. ``sha256`` is the hash of the unchanged file.

    A hunk is (first removed line, line after the last removed one, new lines); line numbers start at 0.
    """

    file: str
    sha256: str
    hunks: tuple[tuple[int, int, tuple[str, ...]], ...]

    @property
    def lines(self) -> int:
        """The number of removed plus added lines."""
        return sum(len(new) + last - first for first, last, new in self.hunks)


@dataclass(frozen=True, kw_only=True)
class Commit(Record):
    """One commit. ``pull`` is the number of its pull request, None if the commit does not name it."""

    sha: str
    subject: str
    pull: int | None = None


@dataclass(frozen=True, kw_only=True)
class FlipChange(Record):
    """The change that causes a flip, or ``why`` none was found. ``file`` and ``symbol`` are its main piece.

    ``both_ways``: exchanging the pieces makes the failing release pass and the passing one fail; None if the
    second was not run or ended differently. ``complete`` is False if time ran out before the pieces were
    minimal. ``commits`` are those in a clone that touched the pieces' lines, None without a clone. ``git``
    says why the clone gave none, ``log`` has the commands to run instead. ``candidates`` is the number of
    pieces that differed at first.
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
        """Omits ``why`` if the change was found; otherwise only says why not and what was tried."""
        row = super().to_json()
        if self.found:
            row.pop("why")
            return row
        return {key: row[key] for key in ("found", "why", "runs", "candidates")}
