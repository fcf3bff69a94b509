"""The interface between a reducer and the tests of its candidates.

A candidate is a standalone program: Python source and data files next to it. :class:`Problem` decides: a
candidate is interesting only if it fails with the same signature and passes on the rung below (so that the
stage is still at fault), each in its own process.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class OutOfBudget(Exception):
    """The time for the reduction is over; the best candidate so far is the result."""


@dataclass(frozen=True)
class Candidate:
    """A program to test. ``files`` maps the names by which it opens data files to their paths."""

    source: str
    files: Mapping[str, Path] = field(default_factory=dict)


class Problem(Protocol):
    """Tests candidates; no candidate is tested twice."""

    @property
    def workers(self) -> int:
        """Number of candidates that may be tested in parallel."""

    def submit(self, candidate: Candidate) -> Future[bool]:
        """Tests whether the candidate is interesting. Raises :class:`OutOfBudget` when the time is over.

        The future may be cancelled; a test that is already running still finishes.
        """

    def found(self, candidate: Candidate, note: str) -> None:
        """Reports that ``candidate`` is now the best one; ``note`` says which edit found it."""
