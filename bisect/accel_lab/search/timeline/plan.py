"""Which release to ask next: the ends, a coarse grid, then the middle of every gap whose ends differ.

Places on the line are numbers, oldest first. A release that cannot be judged (SKIP or DIFFERENT) is
neither end of a gap: the gap reaches over it, and the next one asked is the one nearest to the middle
of those not asked yet. So in a gap of N steps with one flip in it, ceil(log2 N) releases are asked,
and one more for each that could not be judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import pairwise

from accel_lab.core.verdict import Verdict

#: The answers that say on which side of a flip a release lies.
JUDGED = frozenset({Verdict.GOOD, Verdict.BAD})
#: Releases asked for one point of the grid before it is given up: the point and a neighbour on each side.
_TRIES = 3

Answers = Mapping[int, Verdict]


def grid_points(size: int, count: int | None = None) -> tuple[int, ...]:
    """``count`` places, evenly spread, strictly inside a line; by default about the root of its length.

    The root balances the two costs: the grid itself, and what is left to bisect between its points.
    """
    inside = max(0, size - 2)
    wanted = round(math.sqrt(size)) - 1 if count is None else count
    wanted = min(inside, max(0, wanted))
    return tuple(round((n + 1) * (size - 1) / (wanted + 1)) for n in range(wanted))


def steps_needed(steps: int) -> int:
    """The most releases that a plain bisection asks to find one flip in so many steps of the line."""
    return max(0, steps - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A stretch of the line that hides something, and its releases that were not asked yet.

    ``first`` and ``last`` are known; ``edge`` marks the stretch between the end of the line that cannot be
    judged and the first release that can.
    """

    first: int
    last: int
    open: tuple[int, ...]
    edge: bool = False

    def holds(self, places: Set[int]) -> bool:
        """Whether one of the places lies inside the gap."""
        return any(self.first < place < self.last for place in places)

    def middles(self, at_once: int) -> tuple[int, ...]:
        """One place that halves the gap, or two that part it in three where that asks no more in the end."""
        steps = len(self.open) + 1
        third = -(-steps // 3)
        if at_once > 1 and not self.edge and steps > 2 and 2 + steps_needed(third) <= steps_needed(steps):
            return self.open[third - 1], self.open[-third]
        return (self.open[len(self.open) // 2],)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The order of questions on a line of ``size`` releases; ``first`` are the places asked before others."""

    size: int
    grid: tuple[int, ...]
    first: tuple[int, ...]

    def wanted(self, answers: Answers, running: Set[int], free: int) -> list[int]:
        """Up to ``free`` places to ask now. Empty with nothing running: all that can be found is found."""
        if free <= 0:
            return []
        first = [place for place in self.first if place not in answers]
        if first:
            return [place for place in first if place not in running][:free]
        on_grid = self._on_grid(answers, running)
        if on_grid:
            return on_grid[:free]
        if not any(answers[place] in JUDGED for place in answers):
            return [] if running else self._anywhere(answers)[:free]
        ready = [gap for gap in self.gaps(answers) if not gap.holds(running)]
        places: list[int] = []
        for left, gap in zip(range(len(ready), 0, -1), ready, strict=True):
            # A second question in one gap only where no other gap needs the free place.
            places += gap.middles(free - len(places) - (left - 1))
        return places[:free]

    def ahead(self, answers: Answers, running: Set[int], most: int) -> list[int]:
        """The places that will be asked next, whatever comes back, or on one side of what is running."""
        if any(place not in answers for place in self.first):
            places = [place for place in (*self.first, *self.grid) if place not in answers]
        else:
            places = self._on_grid(answers, running)
            gaps = self.gaps(answers)
            places = places or [gap.middles(1)[0] for gap in gaps if not gap.holds(running)]
            for gap in gaps:
                pivots = sorted(r for r in running if gap.first < r < gap.last)
                for low, high in zip([gap.first, *pivots], [*pivots, gap.last], strict=True):
                    inside = [place for place in gap.open if low < place < high] if pivots else []
                    places += inside[len(inside) // 2 :][:1]
        return [place for place in dict.fromkeys(places) if place not in running][:most]

    def gaps(self, answers: Answers) -> list[Gap]:
        """The gaps that still hide a flip, in the order of the line, then those at the ends of it."""
        judged = sorted(place for place, verdict in answers.items() if verdict in JUDGED)
        if not judged:
            return []
        places = [
            self._gap(answers, low, high)
            for low, high in pairwise(judged)
            if answers[low] is not answers[high]
        ]
        # Beyond the outermost judged releases: what is known there cannot be judged, so its border is sought.
        before = [place for place in answers if place < judged[0]]
        after = [place for place in answers if place > judged[-1]]
        if before:
            places.append(self._gap(answers, max(before), judged[0], edge=True))
        if after:
            places.append(self._gap(answers, judged[-1], min(after), edge=True))
        return [gap for gap in places if gap.open]

    @staticmethod
    def _gap(answers: Answers, low: int, high: int, edge: bool = False) -> Gap:
        unasked = tuple(place for place in range(low + 1, high) if place not in answers)
        return Gap(first=low, last=high, open=unasked, edge=edge)

    def _on_grid(self, answers: Answers, running: Set[int]) -> list[int]:
        """One place for each point of the grid that has no judged release in its neighbourhood yet."""
        reach = max(0, ((self.size - 1) // (len(self.grid) + 1) - 1) // 2)
        places = []
        for point in self.grid:
            near = [p for p in range(point - reach, point + reach + 1) if 0 < p < self.size - 1]
            asked = [p for p in near if p in answers]
            settled = len(asked) >= _TRIES or any(answers[p] in JUDGED for p in asked)
            unasked = [p for p in near if p not in answers]
            if not settled and unasked and not any(p in running for p in near):
                places.append(min(unasked, key=lambda p: abs(p - point)))
        return places

    def _anywhere(self, answers: Answers) -> list[int]:
        """The middle of the longest stretch not asked yet, as long as nothing could be judged."""
        asked = sorted({-1, *answers, self.size})
        low, high = max(pairwise(asked), key=lambda pair: pair[1] - pair[0])
        return [(low + high) // 2] if high - low > 1 else []
