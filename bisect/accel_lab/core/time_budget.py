"""Time limits of a bisection, and the list of questions that they left unasked.

There are two limits. A deadline for the whole bisection (``--budget``): probes that would start later are not
started. An allowance, in seconds of probe time, for the searches after the stage is known. It counts each
run's own duration, so that a search resumed from its journal ends at the same probe.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .errors import OutOfTime

LOG = logging.getLogger("accel_lab.search")

#: ``on_phase(words, seconds)``: a phase of the search begins; it takes at most ``seconds`` (None: no limit).
PhaseListener = Callable[[str, "float | None"], None]


def ignore_phase(words: str, seconds: float | None) -> None:
    """Default listener; does nothing."""


@dataclass(kw_only=True)
class Allowance:
    """A limit on probe time, in seconds; ``refused``: a question was not asked because it was used up."""

    seconds: float
    used: float = 0.0
    refused: bool = False

    def spend(self, seconds: float) -> None:
        self.used += seconds

    def has_left(self) -> bool:
        """Whether another question may be asked; sets ``refused`` if not."""
        self.refused |= self.used >= self.seconds
        return not self.refused


@dataclass(kw_only=True)
class SpendingTracker:
    """Tracks the time of a search's runs against ``budget_s`` seconds.

    It expects the next run to take as long as the longest one so far.
    """

    budget_s: float
    used_s: float = 0.0
    longest_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Adds the duration of a run."""
        self.used_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    @property
    def is_over(self) -> bool:
        """Whether another run would probably exceed the budget."""
        return self.used_s + self.longest_s > self.budget_s

    @property
    def left_s(self) -> float:
        """The remaining seconds; negative if the last run exceeded the budget."""
        return self.budget_s - self.used_s


@dataclass(kw_only=True)
class TimeBudget:
    """A deadline ``limit_s`` seconds after :meth:`start`, on ``clock`` (None: no deadline), and an allowance.

    ``unasked`` lists the questions that the time did not allow. Only the searching thread changes it.
    """

    limit_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    unasked: list[str] = field(default_factory=list)
    on_phase: PhaseListener = ignore_phase
    _end: float | None = None
    _allowance: Allowance | None = None

    def start(self) -> None:
        """Starts the clock."""
        self._end = None if self.limit_s is None else self.clock() + self.limit_s

    @property
    def end(self) -> float | None:
        """The deadline, on ``clock``, of a probe submitted now; None without one."""
        return self._end

    @property
    def remaining_s(self) -> float | None:
        """The seconds until the deadline; None without one."""
        return None if self._end is None else max(0.0, self._end - self.clock())

    def check(self) -> None:
        """Raises :class:`OutOfTime` if the allowance is used up; the prober checks the deadline."""
        if self._allowance is not None and not self._allowance.has_left():
            raise OutOfTime("the time budget of this phase is used up")

    def spend(self, seconds: float) -> None:
        """Adds the duration of a run."""
        if self._allowance is not None:
            self._allowance.spend(seconds)

    def note_unasked(self, words: str) -> None:
        """Records a question that the time did not allow."""
        if words not in self.unasked:
            self.unasked.append(words)

    def phase(self, words: str) -> None:
        """Announces a phase of the search; ``component`` is the first after the stage is named."""
        LOG.info("%s", words)
        allowed = self._allowance
        left = [self.remaining_s, None if allowed is None else max(0.0, allowed.seconds - allowed.used)]
        self.on_phase(words, min((seconds for seconds in left if seconds is not None), default=None))

    @contextmanager
    def allow(self, allowance: Allowance | None) -> Iterator[None]:
        """Context in which runs count against an allowance; None keeps the enclosing one."""
        outer = self._allowance
        self._allowance = allowance or outer
        try:
            yield
        finally:
            self._allowance = outer

    @contextmanager
    def without_deadline(self) -> Iterator[None]:
        """Context without a deadline, for runs that must be made in any case."""
        end, self._end = self._end, None
        try:
            yield
        finally:
            self._end = end


__all__ = ["Allowance", "OutOfTime", "PhaseListener", "SpendingTracker", "TimeBudget", "ignore_phase"]
