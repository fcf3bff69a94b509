"""How often must a run be repeated before its verdict can be believed?

A script may fail on only some of its runs. One failure shows that a rung can fail; passes show that
it cannot only up to chance. The bound used here asks no prior: of all rates at which the fault could
fire, take the one that explains the observations best under the wrong hypothesis (the rung that
passed does contain the fault), and compare it with the best rate under the right one. The ratio of
the two likelihoods bounds how misleading the observations can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Runs of one question and how many of them failed."""

    runs: int = 0
    failures: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(runs=self.runs + other.runs, failures=self.failures + other.failures)

    @property
    def rate(self) -> float | None:
        """The share of runs that failed; None without runs."""
        return self.failures / self.runs if self.runs else None


def _best_log_likelihood(tally: Tally) -> float:
    """log of max over p of p^failures (1-p)^passes."""
    passes, total = tally.runs - tally.failures, tally.runs
    value = 0.0
    if tally.failures:
        value += tally.failures * math.log(tally.failures / total)
    if passes:
        value += passes * math.log(passes / total)
    return value


def doubt(failing: Tally, passes: int) -> float:
    """How well "it was only luck that ``passes`` runs without the culprit passed" explains what was seen.

    ``failing`` are the runs that contain the culprit for sure. Returns a likelihood ratio between
    0 and 1; 1 when nothing speaks against luck.
    """
    if not failing.failures or passes <= 0:
        return 1.0
    lucky = failing.plus(Tally(runs=passes))
    return math.exp(_best_log_likelihood(lucky) - _best_log_likelihood(failing))


def passes_needed(failing: Tally, budget: float, most: int = 60) -> int:
    """The number of passing runs after which :func:`doubt` is within ``budget``; at most ``most``."""
    for passes in range(1, most + 1):
        if doubt(failing, passes) <= budget:
            return passes
    return most


def runs_to_see(rate: float, budget: float, most: int = 60) -> int:
    """Runs after which a fault that fires at ``rate`` would have shown, but for a chance of ``budget``."""
    if rate >= 1.0:
        return 1
    if rate <= 0.0:
        return most
    return min(most, max(1, math.ceil(math.log(budget) / math.log(1.0 - rate))))


def cautious_rate(tally: Tally, doubt_budget: float = 0.05) -> float:
    """A lower bound of the rate: below it, so many failures would be seen with a chance under the budget.

    The one-sided Clopper-Pearson bound, found by bisection on the binomial tail.
    """
    if not tally.failures:
        return 0.0
    low, high = 0.0, tally.failures / tally.runs
    for _ in range(50):
        middle = (low + high) / 2
        if _tail(tally, middle) < doubt_budget:
            low = middle
        else:
            high = middle
    return low


def _tail(tally: Tally, rate: float) -> float:
    """P(at least that many failures) at the rate."""
    return sum(
        math.comb(tally.runs, k) * rate**k * (1 - rate) ** (tally.runs - k)
        for k in range(tally.failures, tally.runs + 1)
    )
