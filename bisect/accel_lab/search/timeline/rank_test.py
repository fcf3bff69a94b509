"""The Mann-Whitney rank test, one-sided: are these numbers larger than those, or is it chance?

It asks nothing of how the numbers are distributed, so one slow outlier does not decide. Exact for few
samples, ties included: under "no difference" every choice of ranks is equally likely, and those choices are
counted. Beyond, the normal approximation, corrected for ties and for continuity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

#: Samples of both sides together up to which the choices of ranks are counted.
_COUNTED = 40


def chance_larger(samples: Sequence[float], others: Sequence[float]) -> float:
    """The p-value: the chance of ``samples`` ranking so high among ``others`` if there were no difference."""
    if not samples or not others:
        return 1.0
    ranks = _doubled_ranks([*samples, *others])
    mine = sum(ranks[: len(samples)])
    if len(ranks) <= _COUNTED:
        return _counted(ranks, len(samples), mine)
    return _approximated(ranks, len(samples), mine)


def least_chance(samples: int, others: int) -> float:
    """The smallest p-value that so many samples can reach: all of them above all others."""
    return 1.0 / math.comb(samples + others, samples)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, equal values sharing the middle of their ranks; doubled, so integers."""
    places: dict[float, int] = {}
    below = 0
    for value, count in sorted(Counter(values).items()):
        places[value] = 2 * below + count + 1
        below += count
    return [places[value] for value in values]


def _counted(ranks: Sequence[int], size: int, seen: int) -> float:
    """The share of all choices of ``size`` ranks whose sum is at least the one seen."""
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in range(size))]
    for rank in ranks:
        for taken in range(size - 1, -1, -1):
            for total, count in ways[taken].items():
                ways[taken + 1][total + rank] += count
    larger = sum(count for total, count in ways[size].items() if total >= seen)
    return larger / math.comb(len(ranks), size)


def _approximated(ranks: Sequence[int], size: int, seen: int) -> float:
    total, others = len(ranks), len(ranks) - size
    ties = sum(count**3 - count for count in Counter(ranks).values())
    variance = size * others / 12 * ((total + 1) - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    # In ranks: the sum seen, less its mean, less half a step.
    distance = seen / 2 - size * (total + 1) / 2 - 0.5
    return 0.5 * math.erfc(distance / math.sqrt(2 * variance))
