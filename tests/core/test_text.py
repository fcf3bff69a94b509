"""Texts are made shorter between words; a number is never cut in two."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.text import sentence, shorten


def test_a_text_is_cut_between_words() -> None:
    assert shorten("off by 12345 here", 17) == "off by 12345 here"
    assert shorten("off by 12345 here", 14) == "off by..."
    assert shorten("off by 12345 here", 15) == "off by 12345..."
    assert shorten("x" * 20 + "12345", 26) == "x" * 20 + "12345"
    assert shorten("x" * 20 + "12345", 24) == "x" * 20 + "..."
    assert sentence("a...") == "a..." and sentence("a.") == "a." and sentence("a") == "a."


@given(st.text(alphabet="ab1. -", max_size=60), st.integers(min_value=4, max_value=60))
def test_it_is_never_longer_and_begins_like_the_text(text: str, most: int) -> None:
    short = shorten(text, most)
    assert len(short) <= most
    if short != text:
        assert short.endswith("...")
        kept = short[:-3]
        assert text.startswith(kept)
        assert not (kept[-1:].isdigit() and text[len(kept) : len(kept) + 1].isdigit())
