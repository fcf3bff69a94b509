"""The time that a bisection may take, and what was left unasked when it ended.

Two bounds. The whole bisection may have an end on the clock (``--budget``): a probe that would start after it
is not started. What follows the stage may have an allowance, in seconds of running: those of a run are its
own, whoever made it and when, so a search that is read again from its journal ends where it ended before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .errors import OutOfTime

LOG = logging.getLogger("accel_lab.search")

#: ``on_phase(words, seconds)``: a part of the search begins and takes so many seconds at most (None: no end).
PhaseListener = Callable[[str, "float | None"], None]


def silent(words: str, seconds: float | None) -> None:
    """The listener that nobody listens to."""


@dataclass(kw_only=True)
class Allowance:
    """Seconds of running that are left to spend; ``refused``: a question was not asked for want of them."""

    seconds: float
    used: float = 0.0
    refused: bool = False

    def spend(self, seconds: float) -> None:
        self.used += seconds

    def has_left(self) -> bool:
        """Whether one more question may be asked; that it may not is remembered."""
        self.refused |= self.used >= self.seconds
        return not self.refused


@dataclass(kw_only=True)
class Spending:
    """What the runs of a search took, of ``budget_s`` seconds; the next may take as long as the longest."""

    budget_s: float
    used_s: float = 0.0
    longest_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a run."""
        self.used_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    @property
    def is_over(self) -> bool:
        """Whether another run would probably go beyond the budget."""
        return self.used_s + self.longest_s > self.budget_s

    @property
    def left_s(self) -> float:
        """The seconds that are left; negative where the last run went beyond."""
        return self.budget_s - self.used_s


@dataclass(kw_only=True)
class TimeBudget:
    """``limit_s`` seconds on ``clock`` from :meth:`start` on; None: no end.

    ``unasked`` are the questions that the time did not reach, in words. Only the searching thread
    changes it.
    """

    limit_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    unasked: list[str] = field(default_factory=list)
    on_phase: PhaseListener = silent
    _end: float | None = None
    _allowance: Allowance | None = None

    def start(self) -> None:
        """Let the time begin."""
        self._end = None if self.limit_s is None else self.clock() + self.limit_s

    @property
    def end(self) -> float | None:
        """The end on ``clock`` that holds for a probe submitted now; None without one."""
        return self._end

    @property
    def remaining_s(self) -> float | None:
        """The seconds until the end; None without one."""
        return None if self._end is None else max(0.0, self._end - self.clock())

    def check(self) -> None:
        """Raises :class:`OutOfTime` where the allowance is used up. The end is for who starts the probe."""
        if self._allowance is not None and not self._allowance.has_left():
            raise OutOfTime("the time for this part of the bisection is up")

    def spend(self, seconds: float) -> None:
        """Count a run."""
        if self._allowance is not None:
            self._allowance.spend(seconds)

    def leave(self, words: str) -> None:
        """Note a question that the time did not reach."""
        if words not in self.unasked:
            self.unasked.append(words)

    def phase(self, words: str) -> None:
        """A part of the search begins; ``component`` is the first after the stage is named."""
        LOG.info("%s", words)
        allowed = self._allowance
        left = [self.remaining_s, None if allowed is None else max(0.0, allowed.seconds - allowed.used)]
        self.on_phase(words, min((seconds for seconds in left if seconds is not None), default=None))

    @contextmanager
    def allow(self, allowance: Allowance | None) -> Iterator[None]:
        """Within, the runs are paid from an allowance; None: from the one around it."""
        outer = self._allowance
        self._allowance = allowance or outer
        try:
            yield
        finally:
            self._allowance = outer

    @contextmanager
    def waived(self) -> Iterator[None]:
        """Within, nothing is bounded: for the two runs without which there is no answer at all."""
        end, self._end = self._end, None
        try:
            yield
        finally:
            self._end = end


__all__ = ["Allowance", "OutOfTime", "PhaseListener", "Spending", "TimeBudget", "silent"]
