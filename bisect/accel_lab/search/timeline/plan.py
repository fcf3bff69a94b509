"""Chooses the release to test next: the ends, a coarse grid, then the middle of every gap with a flip.

Places on the line are numbers, oldest first. A release that cannot be judged (SKIP or DIFFERENT) does not end
a gap: the gap extends over it, and the unasked release nearest to the middle is asked next. A gap of N steps
with one flip takes ceil(log2 N) releases, and one more for each that could not be judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import pairwise

from accel_lab.core.verdict import Verdict

#: The verdicts that place a release on one side of a flip.
JUDGED = frozenset({Verdict.GOOD, Verdict.BAD})
#: Releases tried for one grid point before giving it up: the point and a neighbour on each side.
_TRIES = 3

Answers = Mapping[int, Verdict]


def grid_points(size: int, count: int | None = None) -> tuple[int, ...]:
    """Returns ``count`` evenly spread places strictly inside a line; by default about the root of its length.

    The root balances the cost of the grid against the cost of bisecting between its points.
    """
    inside = max(0, size - 2)
    wanted = round(math.sqrt(size)) - 1 if count is None else count
    wanted = min(inside, max(0, wanted))
    return tuple(round((n + 1) * (size - 1) / (wanted + 1)) for n in range(wanted))


def steps_needed(steps: int) -> int:
    """Returns the most releases that bisection asks to find one flip in this many steps of the line."""
    return max(0, steps - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A stretch of the line that hides a flip or a border, and its releases not asked yet.

    ``first`` and ``last`` are known. ``edge`` marks the stretch between an end of the line that cannot be
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
        """Returns the place that halves the gap, or two that split it in three if that costs no more."""
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
        """Returns up to ``free`` places to ask now; the search is done if it is empty and none is running."""
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
            # Ask twice in one gap only if no other gap needs the free place.
            places += gap.middles(free - len(places) - (left - 1))
        return places[:free]

    def ahead(self, answers: Answers, running: Set[int], most: int) -> list[int]:
        """Returns up to ``most`` places likely to be asked next, for fetching ahead."""
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
        """Returns the gaps that still hide a flip, in line order, then those at its ends."""
        judged = sorted(place for place, verdict in answers.items() if verdict in JUDGED)
        if not judged:
            return []
        places = [
            self._gap(answers, low, high)
            for low, high in pairwise(judged)
            if answers[low] is not answers[high]
        ]
        # Outside the outermost judged releases the known ones cannot be judged, so their border is searched.
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
        """Returns one place for each grid point that has no judged release nearby yet."""
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
        """Returns the middle of the longest unasked stretch, while nothing could be judged."""
        asked = sorted({-1, *answers, self.size})
        low, high = max(pairwise(asked), key=lambda pair: pair[1] - pair[0])
        return [(low + high) // 2] if high - low > 1 else []
