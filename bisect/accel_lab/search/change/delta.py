"""Delta debugging with unresolved outcomes: the smallest part of a set of changes that still does it.

The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def smallest(items: Sequence[Item], does_it: Callable[[Sequence[Item]], bool | None]) -> list[Item]:
    """A part of ``items`` that does it, from which no chunk that was tried can be left out.

    ``does_it`` must have answered True for all of them. None is "cannot tell" and counts as False. No subset
    is asked twice. What ``does_it`` raises ends the search.
    """
    known: dict[tuple[int, ...], bool | None] = {}

    def ask(places: Sequence[int]) -> bool | None:
        key = tuple(places)
        if key not in known:
            known[key] = does_it([items[place] for place in key])
        return known[key]

    current, chunks = list(range(len(items))), 2
    while len(current) > 1:
        parts = _parts(current, chunks)
        subset = next((part for part in parts if ask(part) is True), None)
        if subset is not None:
            current, chunks = subset, 2
            continue
        rests = [[place for place in current if place not in part] for part in parts] if chunks > 2 else []
        rest = next((rest for rest in rests if ask(rest) is True), None)
        if rest is not None:
            current, chunks = rest, max(chunks - 1, 2)
        elif chunks < len(current):
            chunks = min(2 * chunks, len(current))
        else:
            break
    return [items[place] for place in current]


def _parts(places: list[int], chunks: int) -> list[list[int]]:
    size, rest = divmod(len(places), chunks)
    parts, at = [], 0
    for number in range(chunks):
        end = at + size + (number < rest)
        parts.append(places[at:end])
        at = end
    return [part for part in parts if part]
