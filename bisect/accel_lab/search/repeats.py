"""Computes how often a run must be repeated before its verdict can be believed.

A script may fail on only some of its runs. One failure shows that a rung can fail; passes show that it cannot
only up to chance. The bound used here needs no prior: among all rates at which the fault could fire, take the
one that explains the observations best under the wrong hypothesis (the passing rung does contain the fault),
and compare it with the best rate under the right one. The ratio of the two likelihoods bounds how misleading
the observations can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Number of runs of one question, and how many of them failed."""

    runs: int = 0
    failures: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(runs=self.runs + other.runs, failures=self.failures + other.failures)

    @property
    def rate(self) -> float | None:
        """The share of runs that failed; None without runs."""
        return self.failures / self.runs if self.runs else None


def _best_log_likelihood(tally: Tally) -> float:
    """Returns the log of max over p of p^failures (1-p)^passes."""
    passes, total = tally.runs - tally.failures, tally.runs
    value = 0.0
    if tally.failures:
        value += tally.failures * math.log(tally.failures / total)
    if passes:
        value += passes * math.log(passes / total)
    return value


def doubt(failing: Tally, passes: int) -> float:
    """Returns how well luck explains that ``passes`` runs without the culprit passed.

    ``failing`` are the runs that surely contain the culprit. The result is a likelihood ratio between 0 and
    1; 1 means no evidence against luck.
    """
    if not failing.failures or passes <= 0:
        return 1.0
    lucky = failing.plus(Tally(runs=passes))
    return math.exp(_best_log_likelihood(lucky) - _best_log_likelihood(failing))


def passes_needed(failing: Tally, budget: float, most: int = 60) -> int:
    """Returns the number of passing runs after which :func:`doubt` is within ``budget``; at most ``most``."""
    for passes in range(1, most + 1):
        if doubt(failing, passes) <= budget:
            return passes
    return most


def runs_to_see(rate: float, budget: float, most: int = 60) -> int:
    """Returns the runs after which a fault firing at ``rate`` has shown, up to a chance of ``budget``."""
    if rate >= 1.0:
        return 1
    if rate <= 0.0:
        return most
    return min(most, max(1, math.ceil(math.log(budget) / math.log(1.0 - rate))))


def cautious_rate(tally: Tally, doubt_budget: float = 0.05) -> float:
    """Returns a lower bound of the rate, with a one-sided error of ``doubt_budget``; 0 without failures.

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
    """Returns P(at least that many failures) at the rate."""
    return sum(
        math.comb(tally.runs, k) * rate**k * (1 - rate) ** (tally.runs - k)
        for k in range(tally.failures, tally.runs + 1)
    )
