"""What a reducer is given: candidates to propose and a problem that says whether one is interesting.

A candidate is a program that can be run by itself: Python source and the data files beside it. The
law of reduction lives behind :class:`Problem`: a candidate is interesting only if it fails with the
same signature and passes on the rung below (so that the failure is still that of the stage), each in
a process of its own.
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
    """A program to try. ``files`` maps the names under which it opens data files to where they lie."""

    source: str
    files: Mapping[str, Path] = field(default_factory=dict)


class Problem(Protocol):
    """Asks candidates; the same question is never asked twice."""

    @property
    def workers(self) -> int:
        """How many candidates may be asked side by side."""

    def submit(self, candidate: Candidate) -> Future[bool]:
        """Whether the candidate is interesting. Raises :class:`OutOfBudget` when the time is over.

        The future may be cancelled; one that is running already goes on to its end.
        """

    def found(self, candidate: Candidate, note: str) -> None:
        """Tell that ``candidate`` is now the best one, and what made it so."""
