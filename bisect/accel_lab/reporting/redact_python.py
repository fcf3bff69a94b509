"""Python source with replacements inside strings and comments only, so that it still runs."""

from __future__ import annotations

import io
import re
import tokenize
import unicodedata
from collections.abc import Callable, Iterator

#: ``replace(text, before)`` gives the parts to change: (start, end, new text), in order.
Replace = Callable[[str, str], list[tuple[int, int, str]]]
Edit = tuple[int, int, str]

_STARTS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
_ENDS = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}
_HEAD = re.compile(r"([A-Za-z]*)(\"\"\"|'''|\"|')")
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

#: One character of a literal's value with the part of the source that stands for it.
Unit = tuple[str, int, int]


def names_in(source: str) -> frozenset[str]:
    """The identifiers of a source; none when it cannot be tokenised."""
    try:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        return frozenset(token.string for token in tokens if token.type == tokenize.NAME)
    except (tokenize.TokenError, SyntaxError):
        return frozenset()


def edit_source(source: str, replace: Replace) -> str | None:
    """The source with ``replace`` applied to comments and the values of strings; None if it is no Python.

    A string's value is searched, not its spelling: an escape such as ``\\n`` before an address is no
    part of it, and ``C:\\\\Users`` is a path.
    """
    try:
        edits = list(_edits(source, replace))
    except (tokenize.TokenError, SyntaxError):
        return None
    return apply(source, edits)


def apply(text: str, edits: list[Edit]) -> str:
    """The text with every edit made; edits are in order and do not overlap."""
    parts, at = [], 0
    for start, end, new in edits:
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def _edits(source: str, replace: Replace) -> Iterator[Edit]:
    lines = source.splitlines(keepends=True) if "\r" not in source else _lines(source)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(place: tuple[int, int]) -> int:
        return starts[min(place[0] - 1, len(starts) - 1)] + place[1]

    depth, opened = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
        if token.type == tokenize.ERRORTOKEN and token.string.strip():
            raise SyntaxError(token.string)  # what newer tokenisers raise by themselves
        if token.type in _STARTS:
            opened = offset(token.start) if depth == 0 else opened
            depth += 1
        elif token.type in _ENDS:
            depth -= 1
            if depth == 0:
                yield from _literal(source, opened, offset(token.end), replace)
        elif depth == 0 and token.type == tokenize.STRING:
            yield from _literal(source, offset(token.start), offset(token.end), replace)
        elif depth == 0 and token.type == tokenize.COMMENT:
            start = offset(token.start)
            for a, b, new in replace(token.string, ""):
                yield start + a, start + b, new


def _lines(source: str) -> list[str]:
    """Lines as the tokeniser counts them: only a newline ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", source)


def _literal(source: str, start: int, end: int, replace: Replace) -> Iterator[Edit]:
    """The edits of one string literal between two offsets of the source."""
    head = _HEAD.match(source, start, end)
    if head is None:
        return
    prefix, quote = head.group(1).lower(), head.group(2)
    body, stop = head.end(), end - len(quote)
    before = source[source.rfind("\n", 0, start) + 1 : start]
    pieces = _f_pieces(source, body, stop, "r" in prefix) if set(prefix) & set("ft") else [(body, stop, True)]
    for a, b, is_text in pieces:
        if is_text:
            yield from _text_edits(source, a, b, prefix, before, replace)
        else:
            yield from _literal(source, a, b, replace)


def _text_edits(
    source: str, start: int, end: int, prefix: str, before: str, replace: Replace
) -> Iterator[Edit]:
    units = list(_units(source, start, end, prefix))
    value = "".join(unit[0] for unit in units)
    for a, b, new in replace(value, before):
        yield units[a][1], units[b - 1][2], new


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
    """The one character that an escape stands for; a continued line stands for none."""
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
    """The parts of an f-string's body: literal text (True) and string literals inside expressions (False)."""
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
    """The offset after the closing brace, and the string literals that lie before it.

    After a colon comes the format, in which a quote is an ordinary character: it is only skipped.
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
    """A match if a string literal starts here, with its prefix."""
    if at and (source[at - 1].isalnum() or source[at - 1] == "_"):
        return None
    return _HEAD.match(source, at, end)


def _string_end(source: str, head: re.Match[str], end: int) -> int:
    """The offset after the literal's closing quote."""
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
