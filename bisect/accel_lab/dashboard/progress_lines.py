"""Reads and parses the lines that a running bisection prints on standard error."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.text import printable, shorten
from accel_lab.core.untrusted.child_files import ChildFiles

MOST_LINES, MOST_LETTERS = 5_000, 2_000
_CHUNK = 1 << 20
#: A probe's line as ``cli.progress`` writes it: ``✓   3 plain run       6.1 s  completes``.
_PROBE = re.compile(r"([✓✗·])\s+(\d+) (\S+(?: \S+)*)\s+(\d+\.\d s|\(known\))  (.*)")
_KINDS = {
    "✓": "good",
    "✗": "bad",
    "·": "na",
    "…": "phase",
    "▼": "smaller",
    "+": "note",
    "=": "note",
    "?": "note",
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line. ``kind`` is a probe's result (``good``, ``bad``, ``na``) or the kind of another line.

    For a probe, ``count`` is its number, ``text`` its description, ``took`` its time and ``result`` its
    outcome.
    """

    number: int
    kind: str
    text: str
    count: str = ""
    took: str = ""
    result: str = ""

    def to_json(self) -> dict[str, Any]:
        """Converts the line to JSON (``events.schema.json``)."""
        return asdict(self)


def read_line(number: int, text: str) -> Line:
    """Parses a line."""
    said = shorten(printable(text.rstrip()), MOST_LETTERS)
    probe = _PROBE.fullmatch(said)
    if probe is not None:
        mark, count, question, took, result = probe.groups()
        return Line(
            number=number, kind=_KINDS[mark], count=count, text=question, took=took.strip("()"), result=result
        )
    mark, _, rest = said.partition(" ")
    if mark in _KINDS and rest:
        return Line(number=number, kind=_KINDS[mark], text=re.sub(r"\s{2,}", ": ", rest.strip()))
    return Line(number=number, kind="text", text=said)


class ProgressLines:
    """Reads the complete lines of a growing file incrementally; thread-safe."""

    def __init__(self, path: Path) -> None:
        self._files, self._name = ChildFiles(path.parent), path.name
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._at, self._rest = 0, b""

    def read(self, *, whole: bool = False) -> list[Line]:
        """Returns all lines so far; ``whole`` means that the file, and so its last line, is complete."""
        with self._lock:
            while len(self._lines) < MOST_LINES and (data := self._more()):
                self._at += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self._add(line)
                self._rest = self._rest[-_CHUNK:]
            if whole and self._rest:
                self._add(self._rest)
                self._rest = b""
            return list(self._lines)

    def _more(self) -> bytes:
        try:
            return self._files.part(self._name, self._at, _CHUNK, most=_CHUNK) or b""
        except (LabError, OSError):
            return b""

    def _add(self, data: bytes) -> None:
        if data.strip() and len(self._lines) < MOST_LINES:
            self._lines.append(read_line(len(self._lines) + 1, os.fsdecode(data)))
