"""What a rule is: where to look, what must be there for that to be worth while, and a last check."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

#: ``accept(match, before)``: ``before`` is what stands on the same line before the text.
Accept = Callable[["re.Match[str]", str], bool]

#: What a person is asked to write in the place of something private, and what this lab writes.
PLACEHOLDER = re.compile(
    r"(?:user|host)\d+\Z|<private>\Z|REDACTED_[A-Z_]+_\d+|(?:[\w@-]{1,63}\.){0,8}(?:invalid|example)\Z"
)


@functools.lru_cache(maxsize=2000)
def _compiled(regex: str, flags: int) -> re.Pattern[str]:
    return re.compile(regex, flags)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """``regex`` names the private part ``s``, or ``w`` where a second form has it. Compiled when needed.

    ``hints``: the text is searched only if it holds one of them; ``folded`` ones are compared in lower case.
    Every quantifier that can fail after it is bounded, so the work is linear in the text's length.
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
    """Rules in their order, with a quick way to those that a text can have a match of at all."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        numbered = list(enumerate(self._rules))
        self._always = [number for number, rule in numbered if not rule.hints]
        self._exact = [(h, number) for number, rule in numbered for h in rule.hints if not rule.folded]
        self._folded = [(h, number) for number, rule in numbered for h in rule.hints if rule.folded]

    def worth(self, text: str, lowered: str) -> list[Rule]:
        """The rules of which a hint stands in the text; ``lowered`` is the text in lower case."""
        numbers = [number for hint, number in self._exact if hint in text]
        numbers += [number for hint, number in self._folded if hint in lowered]
        return [self._rules[number] for number in sorted({*numbers, *self._always})]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)


def part(match: re.Match[str]) -> str:
    """The name of the group that holds the private part."""
    return "s" if match.group("s") is not None else "w"


def line_before(match: re.Match[str], before: str) -> str:
    """What stands before a match on its line, a hundred characters of it at most."""
    start = max(match.start() - 100, 0)
    return ((before if start == 0 else "") + match.string[start : match.start()]).rsplit("\n", 1)[-1][-100:]


def varied(text: str) -> bool:
    """Whether a word has both letters and digits."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)
