"""Redacts, cleans and cuts the texts of a page, within one budget."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accel_lab.core.text import printable
from accel_lab.reporting.run_files import cut
from accel_lab.reporting.schema import plain

#: ``redact(text, file name)`` removes private parts before anything is shown.
Redact = Callable[[str, str], str]

TEXT_LIMIT = 60_000
TOTAL_LIMIT = 2_000_000
DIFF_LINES = 4_000


def keep(text: str, _file: str) -> str:
    """Redacts nothing: for a report that stays on the user's machine."""
    return text


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A text under a heading; ``diff`` texts are coloured line by line."""

    title: str
    text: str
    open: bool = False
    diff: bool = False

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Each line of a diff, with its CSS class before it."""
        return [(line_class(line), line) for line in self.text.splitlines()]


class TextBudget:
    """Redacts, cleans and cuts every text of a page, and counts the total."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._left = TOTAL_LIMIT

    @property
    def spent(self) -> bool:
        """Whether the page's budget is used up."""
        return self._left <= 0

    def say(self, text: Any, file: str = "report.html", limit: int = TEXT_LIMIT) -> str:
        """Returns the text redacted, cleaned, and cut to ``limit`` characters."""
        return cut(self.whole(str(text), file), limit)

    def whole(self, text: str, file: str = "report.html") -> str:
        """Returns the text redacted and cleaned, uncut; the caller counts the shown part by :meth:`taken`."""
        return printable(self._redact(text, file))

    def room(self) -> int:
        """Returns how many characters one more text may have, at least a few hundred."""
        return min(TEXT_LIMIT, max(self._left, 400))

    def taken(self, size: int) -> None:
        """Counts shown characters against the budget."""
        self._left -= size

    def block(self, title: str, text: str, *, file: str = "report.html", open: bool = False) -> Shown | None:
        """Returns a longer text, cut to the rest of the budget; None if it is empty."""
        if not text.strip():
            return None
        shown = self.say(text, file, self.room())
        self.taken(len(shown))
        return Shown(title=self.say(title), text=shown.rstrip("\n"), open=open)

    def diff(self, title: str, left: tuple[list[str], str], right: tuple[list[str], str]) -> Shown | None:
        """Returns a unified diff, or a note if both are equal; None if both are empty."""
        if not left[0] and not right[0]:
            return None
        one, two = left[0][:DIFF_LINES], right[0][:DIFF_LINES]
        lines = list(difflib.unified_diff(one, two, left[1], right[1], n=4, lineterm=""))
        text = "\n".join(lines) or f"no difference between {left[1]} and {right[1]}"
        shown = cut(text, self.room())
        self.taken(len(shown))
        return Shown(title=title, text=shown, open=len(lines) < 60, diff=True)

    def pairs(self, data: dict[str, Any] | None) -> list[tuple[str, str]]:
        """Flattens a dictionary into rows; nested keys become ``outer.inner``, list items become lines."""
        rows: list[tuple[str, str]] = []
        for key, value in (data or {}).items():
            if isinstance(value, dict):
                rows += [(f"{self.say(key)}.{inner}", text) for inner, text in self.pairs(value)]
            elif isinstance(value, (list, tuple)):
                rows.append((self.say(key), self._valued(key, "\n".join(_as_text(item) for item in value))))
            else:
                rows.append((self.say(key), self._valued(key, _as_text(value))))
        return rows

    def _valued(self, key: str, text: str) -> str:
        """Redacts a value with its key before it: the key distinguishes a version from an address."""
        head = self.say(f"{key}: ")
        shown = self.say(f"{key}: {text}", limit=8000)
        return shown[len(head) :] if shown.startswith(head) else self.say(text, limit=8000)


def line_class(line: str) -> str:
    """Returns the CSS class of one line of a unified diff."""
    if line.startswith(("+++", "---", "@@")):
        return "meta"
    return {"+": "plus", "-": "minus"}.get(line[:1], "same")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(plain(value), ensure_ascii=False, default=str)
