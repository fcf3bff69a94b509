"""The one table from a kind of evidence to its sentence, split into files by topic."""

from __future__ import annotations

from collections.abc import Iterable

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.text import shorten

from . import accelerator, alternatives, front, kernel, ladder
from .template import Words, filled

WORDS: dict[EvidenceKind, Words] = {
    **ladder.WORDS,
    **front.WORDS,
    **kernel.WORDS,
    **alternatives.WORDS,
    **accelerator.WORDS,
}

#: What a record that the lab did not write says instead of a sentence is cut to so many characters.
_MOST = 300


def words_of(evidence: Evidence) -> str:
    """The sentence of one observation.

    A record from somebody's file may have other facts than its kind: then the facts are listed.
    """
    try:
        return filled(WORDS[evidence.kind], evidence.facts)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        listed = ", ".join(f"{name} {fact}" for name, fact in evidence.facts.items())
        return shorten(f"{evidence.kind}: {listed}", _MOST)


def line_of(note: Evidence | str) -> str:
    """A warning as a line of text: some are observations, others are text already."""
    return note if isinstance(note, str) else words_of(note)


def sentences(observations: Iterable[Evidence]) -> list[str]:
    """The sentences of several observations."""
    return [words_of(one) for one in observations]


__all__ = ["WORDS", "line_of", "sentences", "words_of"]
