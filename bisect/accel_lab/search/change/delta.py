"""Delta debugging with unresolved outcomes: reduces a set of changes to a smallest part that has the effect.

The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], has_effect: Callable[[Sequence[Item]], bool | None]) -> list[Item]:
    """Returns a part of ``items`` that has the effect and from which no tested chunk can be removed.

    ``has_effect`` must be True for all items; None means unresolved and counts as False. No subset is tested
    twice. Exceptions of ``has_effect`` propagate.
    """
    known: dict[tuple[int, ...], bool | None] = {}

    def ask(places: Sequence[int]) -> bool | None:
        key = tuple(places)
        if key not in known:
            known[key] = has_effect([items[place] for place in key])
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
