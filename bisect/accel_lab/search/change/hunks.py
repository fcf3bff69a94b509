"""The lines inside of changed pieces: which of them are taken from the other version."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

#: Lines of the base from the first number to the second become these lines.
Hunk = tuple[int, int, tuple[str, ...]]
#: A piece of any kind of name, and one of its hunks; None for a piece that comes or goes as a whole.
Part = tuple[tuple[str, str], Hunk | None]


def hunks_of(base: str, other: str) -> list[Hunk]:
    """The differences between two texts, as lines of the first that become lines of the second."""
    one, two = base.split("\n"), other.split("\n")
    matcher = difflib.SequenceMatcher(None, one, two, autojunk=False)
    return [(a, b, tuple(two[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def patched(base: str, hunks: Sequence[Hunk]) -> str:
    """The base with some of the differences."""
    lines = base.split("\n")
    for start, end, new in sorted(hunks, reverse=True):
        lines[start:end] = new
    return "\n".join(lines)


def left_of(
    parts: Sequence[Part], bases: Mapping[tuple[str, str], str]
) -> tuple[list[tuple[str, str]], dict[tuple[str, str], str]]:
    """The pieces that have a part among these, and the texts of those that are taken by lines."""
    kept = list(dict.fromkeys(place for place, _ in parts))
    texts = {
        place: patched(bases[place], [hunk for one, hunk in parts if one == place and hunk is not None])
        for place in kept
        if place in bases
    }
    return kept, texts
