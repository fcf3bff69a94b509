"""The result of a change search: the pieces that move the failure, or why none was found."""

from __future__ import annotations

from dataclasses import dataclass

from .companions import PieceId


@dataclass(frozen=True, kw_only=True)
class Change:
    """Result of a change search.

    ``places`` are the pieces without which the failing release does not fail; ``diff`` is the smallest
    remaining difference. ``both_ways``: the passing release fails with the failing release's pieces; None if
    not tested or unresolved. ``complete`` is False if the budget ended the search. ``files`` are (path, text
    of the failing release, text with the difference).
    """

    places: tuple[PieceId, ...]
    diff: str
    both_ways: bool | None
    complete: bool
    runs: int
    candidates: int
    files: tuple[tuple[str, str, str], ...] = ()

    @property
    def main(self) -> PieceId:
        """The piece to name if there are several: the first."""
        return self.places[0]


@dataclass(frozen=True, kw_only=True)
class NoChange:
    """Says why no piece was found."""

    reason: str
    runs: int
    candidates: int
