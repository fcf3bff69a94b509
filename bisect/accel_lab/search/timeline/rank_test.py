"""The one-sided Mann-Whitney rank test: whether these numbers are larger than those, or by chance.

It assumes no distribution, so one slow outlier does not decide. For few samples it is exact, ties included:
under "no difference" every choice of ranks is equally likely, and those choices are counted. Above that it is
the normal approximation, corrected for ties and for continuity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

#: Maximum samples of both sides together for which the choices of ranks are counted.
_COUNTED = 40


def chance_larger(samples: Sequence[float], others: Sequence[float]) -> float:
    """Returns the p-value: the chance that ``samples`` rank so high among ``others`` without a difference."""
    if not samples or not others:
        return 1.0
    ranks = _doubled_ranks([*samples, *others])
    mine = sum(ranks[: len(samples)])
    if len(ranks) <= _COUNTED:
        return _counted(ranks, len(samples), mine)
    return _approximated(ranks, len(samples), mine)


def least_chance(samples: int, others: int) -> float:
    """Returns the smallest p-value that this many samples can reach: all of them above all others."""
    return 1.0 / math.comb(samples + others, samples)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Returns twice the rank of each value (to stay integer); equal values share their mean rank."""
    places: dict[float, int] = {}
    below = 0
    for value, count in sorted(Counter(values).items()):
        places[value] = 2 * below + count + 1
        below += count
    return [places[value] for value in values]


def _counted(ranks: Sequence[int], size: int, seen: int) -> float:
    """Returns the share of all choices of ``size`` ranks whose sum is at least the observed one."""
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
    # In ranks: the observed sum minus its mean minus half a step.
    distance = seen / 2 - size * (total + 1) / 2 - 0.5
    return 0.5 * math.erfc(distance / math.sqrt(2 * variance))
