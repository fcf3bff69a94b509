"""Texts for a reader made shorter, so that no word and no number is cut in two."""

from __future__ import annotations

#: What is left of a text without a space in this part of it is cut inside a word all the same.
_LEAST = 0.5


def shorten(text: str, most: int) -> str:
    """The text if it has at most ``most`` characters, else as many whole words of it as fit, and ``...``.

    The result never has more than ``most`` characters. A word that is longer than half of that is cut, but a
    number never is.
    """
    if len(text) <= most:
        return text
    room = most - 3
    if room <= 0:
        return "." * max(most, 0)
    end = room
    if not text[end].isspace():
        while end > 0 and not text[end - 1].isspace():
            end -= 1
        if end < room * _LEAST:
            end = room
            while end > 0 and _in_number(text, end):
                end -= 1
    return text[:end].rstrip(" \t\n,;:") + "..."


def _in_number(text: str, place: int) -> bool:
    """Whether a cut before ``place`` would leave a part of a number, which reads like another number."""
    left, right = text[place - 1], text[place]
    return (left.isdigit() or left in ".-+e") and (right.isdigit() or right in ".e")


def sentence(text: str) -> str:
    """The text with one full stop at its end; one that was made shorter keeps its dots."""
    return text if text.endswith("...") else text.rstrip(".") + "."
