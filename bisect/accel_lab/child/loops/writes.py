"""Indexes all writes of some loops to one storage, and computes what a point reads in another order."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple

import torch

from .conflicts import differ

#: Low bits of an access's event number that count the accesses of its nest; the nest's number is above them.
NEST = 20
#: Store modes; the first is a plain store.
_MODES = (None, "atomic_add", "atomic_max", "atomic_min")


class Access(NamedTuple):
    """One load or store over all points: flat offsets and their points, without masked-off lanes."""

    event: int
    name: str
    storage: int
    where: torch.Tensor
    point: torch.Tensor


class Writes:
    """All writes to one storage, sorted by element, then point, then time."""

    def __init__(
        self,
        writes: Sequence[Access],
        stored: Sequence[Tuple[Optional[str], torch.Tensor]],
        points: int,
        before: torch.Tensor,
        after: torch.Tensor,
    ) -> None:
        where = torch.cat([access.where for access in writes])
        point = torch.cat([access.point for access in writes])
        event = torch.cat([torch.full_like(access.where, access.event) for access in writes])
        mode = torch.cat([torch.full_like(a.where, _MODES.index(m)) for a, (m, _) in zip(writes, stored)])
        value = torch.cat([what for _, what in stored])
        # A stable sort keeps the order in time.
        order = torch.argsort(where * points + point, stable=True)
        self.where, self.point, self.event = where[order], point[order], event[order]
        self.mode, self.value = mode[order], value[order]
        self.atomic = self.mode != 0
        self._points = points
        self._cell = self.where * points + self.point
        # There are few distinct times; numbering them makes a key of element, point and time fit 64 bits.
        self._times = torch.unique(event)
        self._key = self._cell * (len(self._times) + 1) + torch.searchsorted(self._times, self.event)
        self.before = before
        self.after = after

    def own(self, where: torch.Tensor, point: torch.Tensor, event: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns ``(row, exists)`` of the point's own last write of an element before that time."""
        cell = where * self._points + point
        time = int((self._times < event).sum())
        row = torch.searchsorted(self._key, cell * (len(self._times) + 1) + time) - 1
        safe = row.clamp(min=0)
        return safe, (row >= 0) & (self._cell[safe] == cell)

    def other(self, where: torch.Tensor, point: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns ``(row, exists)`` of the last write of an element by another point."""
        last = torch.searchsorted(self._cell, (where + 1) * self._points) - 1
        safe = last.clamp(min=0)
        mine = (last >= 0) & (self.where[safe] == where) & (self.point[safe] == point)
        row = torch.where(mine, torch.searchsorted(self._cell, where * self._points + point) - 1, last)
        safe = row.clamp(min=0)
        return safe, (row >= 0) & (self.where[safe] == where)

    def neighbours(self, where: torch.Tensor, point: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns the nearest lower and higher points that write an element.

        They are -1 and the number of points if there is none.
        """
        cell = where * self._points + point
        row = torch.searchsorted(self._cell, cell) - 1
        safe = row.clamp(min=0)
        there = (row >= 0) & (self.where[safe] == where)
        before = torch.where(there, self.point[safe], torch.full_like(where, -1))
        row = torch.searchsorted(self._cell, cell, right=True)
        safe = row.clamp(max=len(self._cell) - 1)
        there = (row < len(self._cell)) & (self.where[safe] == where)
        return before, torch.where(there, self.point[safe], torch.full_like(where, self._points))

    def reads(self, where: torch.Tensor, point: torch.Tensor, event: int, runs_first: bool) -> torch.Tensor:
        """Returns what a point reads if it ``runs_first``, or if it runs after all others."""
        old = self.before[where]
        mine, own = self.own(where, point, event)
        added = self.atomic[mine]
        theirs, other = self.other(where, point)
        if runs_first:
            added &= other  # an element that only this point adds to is as the first run left it
            summed = self._own_sum(mine) if bool(added.any()) else old
            stored = torch.where(self.atomic[mine], self.after[where], self.value[mine])
            return torch.where(own, torch.where(added, summed, stored), old)
        others = torch.where(self.atomic[theirs], self.after[where], self.value[theirs])
        others = torch.where(other, others, old)
        return torch.where(own, torch.where(added, self.after[where], self.value[mine]), others)

    def _own_sum(self, mine: torch.Tensor) -> torch.Tensor:
        """The value of an element if only one point has accumulated there; `mine` is its last row."""
        total = self.before[self.where]
        first = torch.searchsorted(self._cell, self._cell)  # first row of each element and point
        for code, mode in enumerate(_MODES[1:], 1):
            rows = self.mode == code
            if mode == "atomic_add":
                total.index_put_((first[rows],), self.value[rows], accumulate=True)
            else:
                how = "amax" if mode == "atomic_max" else "amin"
                total.scatter_reduce_(0, first[rows], self.value[rows], how)
        return total[first[mine]]

    def overtaken(self) -> Optional[Tuple[int, int]]:
        """Returns two points of different nests whose last writes of an element differ, or None."""
        last = torch.ones_like(self.where, dtype=torch.bool)
        last[:-1] = self._cell[1:] != self._cell[:-1]
        where, point, nest = self.where[last], self.point[last], self.event[last] >> NEST
        value, atomic = self.value[last], self.atomic[last]
        cells, number = torch.unique_consecutive(where, return_inverse=True)
        latest = torch.zeros_like(cells).scatter_reduce_(0, number, nest, "amax")[number]
        final = torch.zeros_like(cells).scatter_reduce_(
            0, number, (atomic & (nest == latest)).to(torch.int64), "amax"
        )[number]
        lost = (nest < latest) & differ(value, self.after[where]) & ~(atomic & final.to(torch.bool))
        if not bool(lost.any()):
            return None
        one = int(torch.nonzero(lost)[0])
        two = int(torch.nonzero((number == number[one]) & (nest == latest))[0])
        return int(point[one]), int(point[two])
