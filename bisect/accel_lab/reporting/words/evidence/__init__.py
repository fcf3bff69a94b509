"""The table from kinds of evidence to sentences, split into files by topic."""

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

#: Maximum characters of a record that the lab did not write.
_MOST = 300


def words_of(evidence: Evidence) -> str:
    """Returns the sentence of one observation.

    A record from an external file may have other facts than its kind; then the facts are listed.
    """
    try:
        return filled(WORDS[evidence.kind], evidence.facts)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        listed = ", ".join(f"{name} {fact}" for name, fact in evidence.facts.items())
        return shorten(f"{evidence.kind}: {listed}", _MOST)


def line_of(note: Evidence | str) -> str:
    """Returns a warning as a line of text, whether it is an observation or already text."""
    return note if isinstance(note, str) else words_of(note)


def sentences(observations: Iterable[Evidence]) -> list[str]:
    """Returns the sentences of several observations."""
    return [words_of(one) for one in observations]


__all__ = ["WORDS", "line_of", "sentences", "words_of"]
