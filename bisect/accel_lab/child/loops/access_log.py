"""Logs the memory accesses of a first run of some loops, and replays it in another order to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from . import memory
from .conflicts import differ
from .pointwise import compute_dtype
from .writes import NEST, Access, Writes

if TYPE_CHECKING:
    from .order import Points

#: Limit on the pieces that loops with a conflict are split into; the rest runs as one piece.
MOST_PIECES = 1024


class Conflict(NamedTuple):
    """Two points that access the same element of a buffer."""

    buffer: str
    points: Tuple[int, int]


class _Numbers:
    """Numbers accesses: the nest's number in the high bits, a count within the nest in the low ones."""

    def __init__(self) -> None:
        self._counts: Dict[int, int] = {}

    def __call__(self, space: Points) -> int:
        count = self._counts.get(space.nest, 0)
        self._counts[space.nest] = count + 1
        return (space.nest << NEST) + count


class Log:
    """Records the accesses of a first run to the memory ``storages``, over ``points`` points."""

    def __init__(self, storages: Dict[int, List[torch.Tensor]], points: int) -> None:
        self.points = points
        self._whole = {pointer: _whole(flats[0]) for pointer, flats in storages.items()}
        self._before = {pointer: whole.clone() for pointer, whole in self._whole.items()}
        self._reads: List[Access] = []
        self._writes: List[Access] = []
        self._values: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}  # per store: where, what
        self._increments: List[Tuple[Optional[str], torch.Tensor]] = []
        self._event = _Numbers()
        self._tables: Dict[int, Writes] = {}

    def keeps(self, flat: torch.Tensor) -> bool:
        """Whether accesses to this memory are logged."""
        return flat.untyped_storage().data_ptr() in self._whole

    def read(
        self, space: Points, flat: torch.Tensor, where: torch.Tensor, name: str, mask: Any
    ) -> torch.Tensor:
        """Reads memory and logs the access."""
        self._reads.append(self._access(space, flat, where, name, mask))
        return memory.gather(flat, where, name, None)

    def _access(self, space: Points, flat: torch.Tensor, where: torch.Tensor, name: str, mask: Any) -> Any:
        shape = torch.broadcast_shapes(where.shape, space.ids.shape)
        if mask is not None:
            shape = torch.broadcast_shapes(shape, mask.shape)
        where, ids = where.expand(shape).reshape(-1), space.ids.expand(shape).reshape(-1)
        if mask is not None:
            kept = mask.expand(shape).reshape(-1)
            where, ids = where[kept], ids[kept]
        pointer = flat.untyped_storage().data_ptr()
        return Access(self._event(space), name, pointer, where + flat.storage_offset(), ids)

    def write(
        self,
        space: Points,
        flat: torch.Tensor,
        where: torch.Tensor,
        what: torch.Tensor,
        name: str,
        mode: Optional[str],
    ) -> None:
        """Writes memory and logs the access."""
        shape = torch.broadcast_shapes(where.shape, what.shape, space.ids.shape)
        shape = torch.Size(space.shape) if mode is not None else shape
        where, what = where.expand(shape), what.expand(shape)
        space.scatter(flat, where, what, name, mode)
        access = self._access(space, flat, where, name, None)
        self._values[access.event] = where, what.to(flat.dtype)
        self._writes.append(access)
        self._increments.append((mode, what.to(flat.dtype).reshape(-1)))

    def close(self) -> None:
        """Ends the first run and sorts its writes."""
        for pointer, whole in self._whole.items():
            rows = [n for n, access in enumerate(self._writes) if access.storage == pointer]
            if rows:
                self._tables[pointer] = Writes(
                    [self._writes[n] for n in rows],
                    [self._increments[n] for n in rows],
                    self.points,
                    self._before[pointer],
                    whole,
                )

    def restore(self) -> None:
        """Restores the memory to its state before the first run."""
        for pointer, whole in self._whole.items():
            whole.copy_(self._before[pointer])

    def replay(self, runs_first: bool) -> Replay:
        """Returns a replay in another order: each point first (``runs_first``), or after all others."""
        return Replay(self, self._tables, self._values, runs_first)

    def passes_on(self) -> bool:
        """Whether memory is read after a store to it."""
        first: Dict[int, int] = {}
        for access in self._writes:
            first[access.storage] = min(access.event, first.get(access.storage, access.event))
        return any(access.event > first.get(access.storage, access.event) for access in self._reads)

    def writer_of(self, point: int) -> Conflict:
        """Returns the first conflict of a point: an element that it reads and another point writes."""
        for access in self._reads:
            table = self._tables.get(access.storage)
            mine = access.where[access.point == point]
            if table is None or mine.numel() == 0:
                continue
            found, there = table.other(mine, torch.full_like(mine, point))
            if bool(there.any()):
                return Conflict(access.name, (point, int(table.point[found[there]][0])))
        return Conflict(self._writes[0].name, (point, point))

    def overwritten(self) -> List[Conflict]:
        """Returns conflicts in which the final value of an element depends on the order of the points."""
        found = []
        for pointer, table in self._tables.items():
            pair = table.overtaken()
            if pair is not None:
                names = [access.name for access in self._writes if access.storage == pointer]
                found.append(Conflict(names[-1], pair))
        return found

    def pieces(self, fused: bool) -> List[Tuple[int, int]]:
        """Splits the points into ranges ``(start, stop)`` within which the order does not matter."""
        earlier = torch.full((self.points,), -1, dtype=torch.int64)
        later = torch.full((self.points,), self.points, dtype=torch.int64)
        for access in self._reads + (self._writes if fused else []):
            table = self._tables.get(access.storage)
            if table is None:
                continue
            before, after = table.neighbours(access.where, access.point)
            point = access.point.cpu()
            earlier.scatter_reduce_(0, point, before.cpu(), "amax")
            if fused:
                later.scatter_reduce_(0, point, after.cpu(), "amin")
        cuts: List[Tuple[int, int]] = []
        start, end = 0, self.points
        for point, (low, high) in enumerate(zip(earlier.tolist(), later.tolist())):
            if (low >= start or point >= end) and len(cuts) < MOST_PIECES:
                cuts.append((start, point))
                start, end = point, self.points
            end = min(end, high)
        return [*cuts, (start, self.points)]


def _whole(flat: torch.Tensor) -> torch.Tensor:
    length = flat.untyped_storage().nbytes() // flat.element_size()
    return flat.as_strided((length,), (1,), 0)


class Replay:
    """A replay that writes nothing: reads return what another order would give, stores are compared."""

    def __init__(
        self,
        log: Log,
        tables: Dict[int, Writes],
        values: Dict[int, Tuple[torch.Tensor, torch.Tensor]],
        runs_first: bool,
    ) -> None:
        self.keeps = log.keeps
        self.differs: Optional[int] = None  # the first point that stores another value
        self._tables = tables
        self._values = values
        self._runs_first = runs_first
        self._event = _Numbers()

    def read(
        self, space: Points, flat: torch.Tensor, where: torch.Tensor, name: str, mask: Any
    ) -> torch.Tensor:
        """Returns the values that the points would read in another order."""
        event = self._event(space)
        table = self._tables.get(flat.untyped_storage().data_ptr())
        if table is None:
            return memory.gather(flat, where, name, None)
        where, point = torch.broadcast_tensors(where, space.ids)
        found = table.reads(
            where.reshape(-1) + flat.storage_offset(), point.reshape(-1), event, self._runs_first
        )
        return found.reshape(where.shape).to(compute_dtype(flat.dtype))

    def write(
        self,
        space: Points,
        flat: torch.Tensor,
        where: torch.Tensor,
        what: torch.Tensor,
        name: str,
        mode: Optional[str],
    ) -> None:
        """Compares a store with that of the first run."""
        old_where, old = self._values[self._event(space)]
        changed = (where.expand(old.shape) != old_where) | differ(what.to(flat.dtype).expand(old.shape), old)
        if self.differs is None and bool(changed.any()):
            first = int(torch.nonzero(changed)[0][0])
            self.differs = int(space.ids.flatten()[first])
