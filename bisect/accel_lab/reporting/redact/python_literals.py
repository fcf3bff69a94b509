"""Reads the string literals of Python source, character by character: value and spelling."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

HEAD = re.compile(r"([A-Za-z]*)(\"\"\"|'''|\"|')")
_ESCAPE = re.compile(
    r"\\(?:\r?\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}\n]+\}|[0-7]{1,3}|.)", re.S
)
_SIMPLE = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}
#: What an f-string expression may hold besides one literal for Python to join it with the text around.
_ONLY_A_LITERAL = re.compile(r"[{}\s()]{0,100}(?:![sa])?[{}\s()]{0,100}\Z")

#: One character of a literal's value, with the start and end of its spelling in the source.
Unit = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of text in the source. ``joined``: Python appends it to the piece before it."""

    units: list[Unit]
    start: int
    joined: bool = True


def literal_pieces(source: str, start: int, end: int) -> Iterator[list[Piece]]:
    """Yields the text of one string literal; for an f-string also that of literals in its expressions.

    The first list is the literal's own text; each further one is a literal that an expression uses.
    """
    head = HEAD.match(source, start, end)
    if head is None:
        return
    prefix, quote = head.group(1).lower(), head.group(2)
    body, stop = head.end(), end - len(quote)
    if not set(prefix) & set("ft"):
        yield [Piece(units=list(_units(source, body, stop, prefix)), start=start)]
        return
    own: list[Piece] = []
    others: list[list[Piece]] = []
    at = body
    for a, b, is_text in _f_pieces(source, body, stop, "r" in prefix):
        if is_text:
            glued = _ONLY_A_LITERAL.match(source[at:a]) is not None
            own.append(Piece(units=list(_units(source, a, b, prefix)), start=a, joined=glued or not own))
            at = b
            continue
        inner = list(literal_pieces(source, a, b))
        glued = _ONLY_A_LITERAL.match(source[at:a]) is not None and _ends_there(source, b, stop)
        if glued and inner:
            own += inner[0]
            others += inner[1:]
            at = b
        else:
            others += inner
    yield own or [Piece(units=[], start=start)]
    yield from others


def _ends_there(source: str, at: int, stop: int) -> bool:
    """Whether an f-string's expression ends right after a literal."""
    return re.compile(r"\s{0,20}(?:![sa])?\s{0,20}\}").match(source, at, stop) is not None


def _units(source: str, start: int, end: int, prefix: str) -> Iterator[Unit]:
    raw, is_bytes, formatted = "r" in prefix, "b" in prefix, bool(set(prefix) & set("ft"))
    at = start
    while at < end:
        char = source[at]
        if char == "\\" and not raw:
            match = _ESCAPE.match(source, at, end)
            text = match.group() if match else char
            if is_bytes and text[1:2] in ("u", "U", "N"):
                text = text[:2]
            value = _unescape(text)
            if value:
                yield value, at, at + len(text)
            at += len(text)
        elif formatted and char in "{}" and source[at : at + 2] == char * 2:
            yield char, at, at + 2
            at += 2
        else:
            yield char, at, at + 1
            at += 1


def _unescape(text: str) -> str:
    """Returns the character that an escape stands for; empty for a continued line."""
    body = text[1:]
    if body[:1] in ("\n", "\r"):
        return ""
    if body[:1] in ("x", "u", "U") and len(body) > 1:
        code = int(body[1:], 16)
        return chr(code) if code <= 0x10FFFF else "?"
    if body[:2] == "N{":
        try:
            return unicodedata.lookup(body[2:-1])[:1]
        except KeyError:
            return "?"
    if body[:1].isdigit() and body[:1] in "01234567":
        return chr(int(body, 8))
    return _SIMPLE.get(body, "?")


def _f_pieces(source: str, start: int, end: int, raw: bool) -> Iterator[tuple[int, int, bool]]:
    """Yields parts of an f-string's body: literal text (True), string literals in expressions (False)."""
    at = text_start = start
    while at < end:
        char = source[at]
        if char == "\\" and not raw:
            match = _ESCAPE.match(source, at, end)
            at = match.end() if match else at + 1
        elif char in "{}" and source[at : at + 2] == char * 2:
            at += 2
        elif char == "{":
            if text_start < at:
                yield text_start, at, True
            at, inner = _expression(source, at + 1, end)
            yield from inner
            text_start = at
        else:
            at += 1
    if text_start < end:
        yield text_start, end, True


def _expression(source: str, start: int, end: int) -> tuple[int, list[tuple[int, int, bool]]]:
    """Returns the offset after the closing brace, and the string literals before it.

    The format after a colon is skipped: a quote is an ordinary character there.
    """
    at, depth, in_format, found = start, 0, False, []
    while at < end:
        char = source[at]
        head = None if in_format else _string_head(source, at, end)
        if head is not None:
            stop = _string_end(source, head, end)
            found.append((at, stop, False))
            at = stop
            continue
        if char in "([{":
            depth += 1
        elif char == "}" and depth == 0:
            return at + 1, found
        elif char in ")]}":
            depth -= 1
        elif char == ":" and depth == 0:
            in_format = True
        at += 1
    return end, found


def _string_head(source: str, at: int, end: int) -> re.Match[str] | None:
    """Returns a match if a string literal, with its prefix, starts here."""
    if at and (source[at - 1].isalnum() or source[at - 1] == "_"):
        return None
    return HEAD.match(source, at, end)


def _string_end(source: str, head: re.Match[str], end: int) -> int:
    """Returns the offset after the literal's closing quote."""
    quote, at = head.group(2), head.end()
    formatted = set(head.group(1).lower()) & set("ft")
    while at < end:
        if source.startswith(quote, at):
            return at + len(quote)
        if source[at] == "\\":
            at += 2
        elif formatted and source[at] == "{" and source[at : at + 2] != "{{":
            at, _ = _expression(source, at + 1, end)
        else:
            at += 2 if formatted and source[at : at + 2] == "{{" else 1
    return end
