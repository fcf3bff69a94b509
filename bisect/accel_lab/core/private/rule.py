"""Rules that find private text: a regex, hints for a fast pre-check, and a final check."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

#: ``accept(match, before)``: ``before`` is the text before the searched one, on the same line.
Accept = Callable[["re.Match[str]", str], bool]

#: Placeholders that users are asked to write, and that the lab writes itself.
PLACEHOLDER = re.compile(
    r"(?:user|host)\d+\Z|<private>\Z|REDACTED_[A-Z_]+_\d+|(?:[\w@-]{1,63}\.){0,8}(?:invalid|example)\Z"
)


@functools.lru_cache(maxsize=2000)
def _compiled(regex: str, flags: int) -> re.Pattern[str]:
    return re.compile(regex, flags)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule. In ``regex`` the group ``s`` (or ``w``, for an alternative form) is the private part.

    ``hints``: the text is searched only if it contains one of them. ``folded`` hints are compared in lower
    case. Quantifiers that can backtrack are bounded, so the search is linear in the text's length. The regex
    is compiled on first use.
    """

    kind: str
    name: str
    regex: str
    flags: int = 0
    hints: tuple[str, ...] = ()
    folded: bool = True
    accept: Accept | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression."""
        return _compiled(self.regex, self.flags)


class Rules:
    """An ordered list of rules that selects by hints those that can match a text."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        numbered = list(enumerate(self._rules))
        self._always = [number for number, rule in numbered if not rule.hints]
        self._exact = [(h, number) for number, rule in numbered for h in rule.hints if not rule.folded]
        self._folded = [(h, number) for number, rule in numbered for h in rule.hints if rule.folded]

    def candidates(self, text: str, lowered: str) -> list[Rule]:
        """Returns the rules without hints or with a hint in the text; ``lowered``: the text in lower case."""
        numbers = [number for hint, number in self._exact if hint in text]
        numbers += [number for hint, number in self._folded if hint in lowered]
        return [self._rules[number] for number in sorted({*numbers, *self._always})]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)


def part(match: re.Match[str]) -> str:
    """Returns the name of the group with the private part."""
    return "s" if match.group("s") is not None else "w"


def line_before(match: re.Match[str], before: str) -> str:
    """Returns the text before a match on its line, at most 100 characters."""
    start = max(match.start() - 100, 0)
    return ((before if start == 0 else "") + match.string[start : match.start()]).rsplit("\n", 1)[-1][-100:]


def varied(text: str) -> bool:
    """Whether a word has both letters and digits."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
