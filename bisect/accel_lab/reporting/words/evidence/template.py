"""The words of one kind of evidence: a sentence with its facts' names in braces, or a function of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from accel_lab.core.evidence import Fact

#: A list of text stands in a sentence with commas between its items.
Words = str | Callable[..., str]


def filled(words: Words, facts: Mapping[str, Fact]) -> str:
    """The sentence. Raises KeyError, TypeError or ValueError for facts that the words do not have."""
    if callable(words):
        return words(**facts)
    shown = {name: ", ".join(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
    return words.format_map(shown)


def alike(same: bool) -> str:
    """How a run fails, compared with the script."""
    return "in the same way" if same else "in another way"
