"""Where a text holds something private: the rules one after the other, and what several of them found."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from .assigned import ASSIGNED, known_by_key
from .keys import key_blocks
from .machines import MACHINES
from .people import EMAILS, Known, own_rules
from .rule import PLACEHOLDER, Rules, part
from .shapes import SHAPES

#: Kinds that open something; the others name somebody.
SECRET_KINDS = frozenset({"token", "credential", "private_key", "word"})
NOTHING_KNOWN = Known()
_SHAPES, _ASSIGNED = Rules(SHAPES), Rules(ASSIGNED)


@dataclass(frozen=True, kw_only=True)
class Span:
    """``text[start:end]`` is private; ``kind`` says what it is."""

    start: int
    end: int
    kind: str
    secret: str


def spans(
    text: str,
    known: Known = NOTHING_KNOWN,
    *,
    before: str = "",
    spare: frozenset[str] = frozenset(),
    shapes_only: bool = False,
) -> list[Span]:
    """The private spans of a text, none overlapping, in order.

    ``before`` is what stands before the text in its statement, so that ``token = "..."`` is known from its
    key; ``spare`` are words that must not be replaced on their own, for they are names in the code.
    """
    return _chosen(text, _by_shape(text) if shapes_only else _candidates(text, known, before, spare))


def _chosen(text: str, found: Iterator[tuple[str, int, int]]) -> list[Span]:
    """Of overlapping candidates the first; what opens something takes in all that it touches of its kind."""
    taken: list[Span] = []
    starts: list[int] = []
    for kind, start, end in found:
        if start >= end or PLACEHOLDER.match(text[start:end]):
            continue
        low = bisect.bisect_right(starts, start)
        low -= bool(low and taken[low - 1].end > start)
        high = bisect.bisect_left(starts, end)
        met = taken[low:high]
        if met and not (kind in SECRET_KINDS and all(span.kind in SECRET_KINDS for span in met)):
            continue
        if met:
            kind, start, end = met[0].kind, min(start, met[0].start), max(end, met[-1].end)
        taken[low:high] = [Span(start=start, end=end, kind=kind, secret=text[start:end])]
        starts[low:high] = [start]
    return taken


def secrets_in(text: str, *, before: str = "") -> list[Span]:
    """The spans of a text that open something: tokens, passwords, keys."""
    return [span for span in _chosen(text, _secrets(text, before)) if span.kind in SECRET_KINDS]


#: What stands in a message for a private part: it is the same on every machine.
HIDDEN = "<private>"


def mask(text: str) -> str:
    """The text with all that the rules call private replaced by ``<private>``; nothing else is known.

    Whose home a path lies in becomes ``user``, so that a path stays one.
    """
    parts, at = [], 0
    for span in spans(text):
        parts += [text[at : span.start], "user" if span.kind == "home" else HIDDEN]
        at = span.end
    return "".join([*parts, text[at:]])


def _by_shape(text: str) -> Iterator[tuple[str, int, int]]:
    for start, end in key_blocks(text):
        yield "private_key", start, end
    yield from _matches(_SHAPES, text, "")


def _candidates(
    text: str, known: Known, before: str, spare: frozenset[str]
) -> Iterator[tuple[str, int, int]]:
    """All matches, the surest rule first: what one rule took, a later one leaves."""
    yield from _secrets(text, before)
    yield from _matches(_rules(known, spare), text, before)


def _secrets(text: str, before: str) -> Iterator[tuple[str, int, int]]:
    """What opens something, by its shape and by what stands before it."""
    yield from _by_shape(text)
    place = known_by_key(text, before) if before else None
    if place is not None:
        yield "token", *place
    yield from _matches(_ASSIGNED, text, before)


@functools.lru_cache(maxsize=64)
def _rules(known: Known, spare: frozenset[str]) -> Rules:
    return Rules((*EMAILS, *own_rules(known, spare), *MACHINES))


def _matches(rules: Rules, text: str, before: str) -> Iterator[tuple[str, int, int]]:
    for rule in rules.worth(text, text.lower()):
        for match in rule.pattern.finditer(text):
            if rule.accept is None or rule.accept(match, before):
                group = part(match)
                yield rule.kind, match.start(group), match.end(group)
