"""Finds the private spans of a text: applies all rules and resolves overlaps."""

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

#: Kinds that grant access; the other kinds identify a person or a machine.
SECRET_KINDS = frozenset({"token", "credential", "private_key", "word"})
NOTHING_KNOWN = Known()
_SHAPES, _ASSIGNED = Rules(SHAPES), Rules(ASSIGNED)


@dataclass(frozen=True, kw_only=True)
class Span:
    """A private part, ``secret``, at ``text[start:end]``; ``kind`` says what it is."""

    start: int
    end: int
    kind: str
    secret: str


def spans(
    text: str,
    known: Known = NOTHING_KNOWN,
    *,
    before: str = "",
    keep: frozenset[str] = frozenset(),
    shapes_only: bool = False,
) -> list[Span]:
    """Returns the private spans of a text, in order and without overlaps.

    ``before`` is what precedes ``text`` in its statement, so that the key in ``token = "..."`` is seen.
    ``keep`` are identifiers of the code, which are not replaced on their own.
    """
    return _chosen(text, _by_shape(text) if shapes_only else _candidates(text, known, before, keep))


def _chosen(text: str, found: Iterator[tuple[str, int, int]]) -> list[Span]:
    """Keeps the first of overlapping candidates; overlapping secrets are merged into one span."""
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
    """Returns the spans that grant access: tokens, passwords, keys."""
    return [span for span in _chosen(text, _secrets(text, before)) if span.kind in SECRET_KINDS]


#: Replaces a private part of a message; the same on every machine.
HIDDEN = "<private>"


def mask(text: str) -> str:
    """Returns the text with all private parts replaced by ``<private>``, by general rules only.

    The account name in a home path becomes ``user``, so that the path stays one.
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


def _candidates(text: str, known: Known, before: str, keep: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """All matches, those of the most reliable rules first; earlier ones take precedence."""
    yield from _secrets(text, before)
    yield from _matches(_rules(known, keep), text, before)


def _secrets(text: str, before: str) -> Iterator[tuple[str, int, int]]:
    """Matches of secrets, by shape and by context."""
    yield from _by_shape(text)
    place = known_by_key(text, before) if before else None
    if place is not None:
        yield "token", *place
    yield from _matches(_ASSIGNED, text, before)


@functools.lru_cache(maxsize=64)
def _rules(known: Known, keep: frozenset[str]) -> Rules:
    return Rules((*EMAILS, *own_rules(known, keep), *MACHINES))


def _matches(rules: Rules, text: str, before: str) -> Iterator[tuple[str, int, int]]:
    for rule in rules.candidates(text, text.lower()):
        for match in rule.pattern.finditer(text):
            if rule.accept is None or rule.accept(match, before):
                group = part(match)
                yield rule.kind, match.start(group), match.end(group)
