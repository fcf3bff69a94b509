"""Edits Python source inside strings and comments only, so that it still runs."""

from __future__ import annotations

import bisect
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from accel_lab.core.private import SECRET_KINDS, Span

from .python_literals import Piece, Unit, literal_pieces

#: ``find(text, before, shapes_only)`` returns the private parts of a text.
Find = Callable[[str, str, bool], list[Span]]
#: Returns the replacement of a private part.
Name = Callable[[Span], str]
Edit = tuple[int, int, str]

_STARTS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
_ENDS = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}
_SILENT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT})
_COMMENT = re.compile(r"#[#!:]{0,9}[ \t]{0,40}")
#: Precedes the items of a list that Python joins into one string.
_JOIN = re.compile(r"\.join\(\s{0,9}[\[(]\s{0,9}\Z")
#: Characters of a statement that are searched for the key of a literal.
_BEFORE = 400


def names_in(source: str) -> frozenset[str]:
    """Returns the identifiers of a source; empty if it cannot be tokenised."""
    try:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        return frozenset(token.string for token in tokens if token.type == tokenize.NAME)
    except (tokenize.TokenError, SyntaxError):
        return frozenset()


def edit_source(source: str, find: Find, name: Name) -> str | None:
    """Returns the source with private parts replaced in comments and strings; None if it is not Python.

    A string's value is searched, not its spelling: an escape such as ``\\n`` before an address does not
    belong to it, and ``C:\\\\Users`` is a path. Literals that Python joins are searched as one text, and so
    are comments on adjacent lines and the items of a list of strings.
    """
    try:
        groups = list(_groups(source))
    except (tokenize.TokenError, SyntaxError):
        return None
    edits = _Edits()
    for group in groups:
        for run in group.runs:
            edits.take(run.units, find(run.text, run.before, False), name)
        if len(group.runs) > 1:
            for glue in ("\n", "") if _JOIN.search(group.runs[0].before) else ("\n",):
                units = _joined((run.units for run in group.runs), glue)
                edits.take(units, find("".join(unit[0] for unit in units), "", True), name)
            if any(run.text.startswith("-") for run in group.runs):  # the arguments of a command
                units = _joined((run.units for run in group.runs), " ")
                found = find("".join(unit[0] for unit in units), "", False)
                edits.take(units, [span for span in found if span.kind in SECRET_KINDS], name)
    return apply(source, edits.rows)


def pieces_in(source: str) -> list[str]:
    """Returns the texts of a source's literals, also each part of joined ones; empty if it is not Python."""
    try:
        runs = [run for group in _groups(source) for run in group.runs]
    except (tokenize.TokenError, SyntaxError):
        return []
    found = []
    for run in runs:
        start = 0
        for at in range(1, len(run.units) + 1):
            if at == len(run.units) or run.units[at][1] != run.units[at - 1][2]:
                found.append("".join(unit[0] for unit in run.units[start:at]))
                start = at
    return found


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Returns the text with the edits made; they must be in order and not overlap."""
    parts, at = [], 0
    for start, end, new in edits:
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


@dataclass(kw_only=True)
class _Run:
    """Text that Python joins into one string, or adjacent comments. Gaps are units without a position."""

    units: list[Unit] = field(default_factory=list)
    before: str = ""

    @property
    def text(self) -> str:
        return "".join(unit[0] for unit in self.units)


@dataclass(kw_only=True)
class _Group:
    """Runs that are adjacent, like the items of a list."""

    runs: list[_Run] = field(default_factory=list)


_NOWHERE = -1
#: Stands for the value of an f-string's expression: no letter, no digit, no space.
_VALUE = "\ue000"


def _joined(texts: Iterable[list[Unit]], glue: str) -> list[Unit]:
    units: list[Unit] = []
    for number, part in enumerate(texts):
        if number and glue:
            units.append((glue, _NOWHERE, _NOWHERE))
        units += part
    return units


class _Edits:
    """Replacements in a source, in order; overlapping ones are merged."""

    def __init__(self) -> None:
        self.rows: list[Edit] = []

    def take(self, units: list[Unit], spans: list[Span], name: Name) -> None:
        """Puts the placeholder where a span starts; the span's further pieces become empty."""
        for span in spans:
            places = list(_places(units[span.start : span.end]))
            new = name(span) if places else ""
            for start, end in places:
                self._add(start, end, new)
                new = ""

    def _add(self, start: int, end: int, new: str) -> None:
        low = bisect.bisect_left(self.rows, start, key=lambda row: row[1])
        low += bool(low < len(self.rows) and self.rows[low][1] == start)
        high = bisect.bisect_left(self.rows, end, key=lambda row: row[0])
        met = self.rows[low:high]
        if met:
            start, end = min(start, met[0][0]), max(end, met[-1][1])
            new = next((row[2] for row in met if row[2]), new)
        self.rows[low : max(high, low)] = [(start, end, new)]


def _places(units: list[Unit]) -> Iterator[tuple[int, int]]:
    """Yields the stretches of source that units stand for; one ends where another literal begins."""
    start = end = _NOWHERE
    for _, a, b in units:
        if a == _NOWHERE:
            continue
        if start != _NOWHERE and a == end:
            end = b
            continue
        if start != _NOWHERE:
            yield start, end
        start, end = a, b
    if start != _NOWHERE:
        yield start, end


def _groups(source: str) -> Iterator[_Group]:
    """Yields all literals and comments of a source; adjacent ones form a group."""
    reader = _Reader(source)
    depth, opened = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
        if token.type == tokenize.ERRORTOKEN and token.string.strip():
            raise SyntaxError(token.string)  # newer tokenisers raise this by themselves
        if token.type in _STARTS:
            opened = reader.offset(token.start) if depth == 0 else opened
            depth += 1
        elif token.type in _ENDS:
            depth -= 1
            if depth == 0:
                reader.literal(opened, reader.offset(token.end))
        elif depth == 0:
            reader.token(token)
    reader.close()
    yield from reader.done


class _Reader:
    """Reads the tokens of a source and collects its groups."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0]
        for line in _lines(source):
            self.starts.append(self.starts[-1] + len(line))
        self.done: list[_Group] = []
        self.group = _Group()
        self.comments = _Run()
        self.comment_line = -1
        self.statement = 0
        self.between = ""

    def offset(self, place: tuple[int, int]) -> int:
        return self.starts[min(place[0] - 1, len(self.starts) - 1)] + place[1]

    def token(self, token: tokenize.TokenInfo) -> None:
        if token.type == tokenize.STRING:
            self.literal(self.offset(token.start), self.offset(token.end))
        elif token.type == tokenize.COMMENT:
            self.comment(token.string, self.offset(token.start), token.start[0])
        elif token.type == tokenize.OP and token.string in ("+", ",", "(", ")"):
            self.between += token.string
        elif token.type not in _SILENT:
            self.close_group()
            if token.type == tokenize.NEWLINE:
                self.statement = self.offset(token.end)

    def literal(self, start: int, end: int) -> None:
        """Adds one literal; it continues the previous one if Python joins them."""
        for number, pieces in enumerate(literal_pieces(self.source, start, end)):
            if number == 0 and self.group.runs and "," not in self.between:
                run = self.group.runs[-1]
            else:
                run = _Run(before=self._before(pieces[0].start))
                if number == 0:
                    self.group.runs.append(run)
                else:
                    self.done.append(_Group(runs=[run]))
            run.units += _units_of(pieces)
        self.between = ""

    def comment(self, text: str, start: int, line: int) -> None:
        """Adds one comment; it continues that of the line above."""
        sign = _COMMENT.match(text)
        skip = sign.end() if sign else 0
        units = [(char, start + n, start + n + 1) for n, char in enumerate(text) if n >= skip]
        if line != self.comment_line + 1:
            self._close_comments()
        gap: list[Unit] = [("\n", _NOWHERE, _NOWHERE)] if self.comments.units else []
        self.comments.units += [*gap, *units]
        self.comment_line = line

    def close(self) -> None:
        self.close_group()
        self._close_comments()

    def close_group(self) -> None:
        if self.group.runs:
            self.done.append(self.group)
            self.group = _Group()
        self.between = ""

    def _close_comments(self) -> None:
        if self.comments.units:
            self.done.append(_Group(runs=[self.comments]))
            self.comments = _Run()

    def _before(self, start: int) -> str:
        """Returns the end of the statement's text before a literal."""
        return self.source[max(self.statement, start - _BEFORE) : start]


def _units_of(pieces: list[Piece]) -> Iterator[Unit]:
    for number, piece in enumerate(pieces):
        if number and not piece.joined:
            yield _VALUE, _NOWHERE, _NOWHERE
        yield from piece.units


def _lines(source: str) -> list[str]:
    """Returns lines as the tokeniser counts them: only a newline ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", source)
