"""Splits changed pieces into hunks and applies some of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

#: (start, end, new lines): the lines ``start`` to ``end`` (exclusive) of the base become the new lines.
Hunk = tuple[int, int, tuple[str, ...]]
#: A piece and one of its hunks; None for a piece that is added or removed as a whole.
Part = tuple[tuple[str, str], Hunk | None]


def hunks_of(base: str, other: str) -> list[Hunk]:
    """Returns the differences between two texts, as lines of the first that become lines of the second."""
    one, two = base.split("\n"), other.split("\n")
    matcher = difflib.SequenceMatcher(None, one, two, autojunk=False)
    return [(a, b, tuple(two[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def patched(base: str, hunks: Sequence[Hunk]) -> str:
    """Returns the base with these hunks applied."""
    lines = base.split("\n")
    for start, end, new in sorted(hunks, reverse=True):
        lines[start:end] = new
    return "\n".join(lines)


def left_of(
    parts: Sequence[Part], bases: Mapping[tuple[str, str], str]
) -> tuple[list[tuple[str, str]], dict[tuple[str, str], str]]:
    """Returns the pieces that have a part among these, and the patched texts of those taken by hunks."""
    kept = list(dict.fromkeys(place for place, _ in parts))
    texts = {
        place: patched(bases[place], [hunk for one, hunk in parts if one == place and hunk is not None])
        for place in kept
        if place in bases
    }
    return kept, texts
