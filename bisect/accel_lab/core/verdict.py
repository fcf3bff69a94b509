"""Verdict: what an Outcome means for the target failure. It cannot be used as a bool."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn


class Verdict(str, Enum):
    """GOOD: no failure. BAD: the same failure. DIFFERENT: another failure. SKIP: cannot tell.

    On the ladder DIFFERENT is shown as "fails differently"; a search treats it as SKIP.
    """

    GOOD = "good"
    BAD = "bad"
    DIFFERENT = "different"
    SKIP = "skip"

    def __bool__(self) -> NoReturn:
        raise TypeError("a Verdict is not a bool: compare it with Verdict.GOOD, BAD, DIFFERENT or SKIP")

    def __str__(self) -> str:
        return self.value
