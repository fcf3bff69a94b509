"""Turns one kind of evidence into a sentence: a template with facts in braces, or a function of the facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from accel_lab.core.evidence import Fact

#: A template, or a function of the facts. Lists of strings are joined by commas in a template.
Words = str | Callable[..., str]


def filled(words: Words, facts: Mapping[str, Fact]) -> str:
    """Returns the sentence; raises KeyError, TypeError or ValueError if facts and words do not match."""
    if callable(words):
        return words(**facts)
    shown = {name: ", ".join(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
    return words.format_map(shown)


def alike(same: bool) -> str:
    """Says whether a run fails as the script does."""
    return "in the same way" if same else "in another way"
