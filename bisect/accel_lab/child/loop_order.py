"""Runs loops that could conflict, and finds whether their result depends on the order of their iterations.

A point is one index of the loops that some nests share. The nests are run in turn, and every access to the
memory that they write is logged. Then each point is computed again, as if all other points had been
finished before it, and, where a nest reads what an earlier one wrote, as if no other point had been begun.
If a point stores another value then, the loops depend on their order: they are run again in loop order, as
generated scalar code runs them, so that a wrong result shows.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import loop_memory
from .loop_access import Memory, SizeOf
from .loop_conflicts import differ, tell
from .loop_math import compute_dtype
from .loop_ops import Space
from .loop_trace import Program
from .loop_writes import NEST, Access, Writes

#: Points, with all that lies inside them, up to which a conflict is looked for.
MOST_CHECKED = 1 << 21
#: Pieces that loops with a conflict are cut into; what is left runs as one.
MOST_PIECES = 1024

Parts = Sequence[Tuple[Program, torch.device]]


def run_checked(
    parts: Parts, sizes: Sequence[Sequence[int]], shared: int, memory: Memory, size_of: SizeOf
) -> None:
    """Execute nests that share their outermost loops in turn, or in loop order where the order matters."""
    loops = _Loops(parts, sizes, shared, memory, size_of)
    programs = [program for program, _ in parts]
    log = _Log(loops.storages(), loops.points)
    too_many = max(math.prod(row) for row in sizes) > MOST_CHECKED
    if too_many or not log.uniform:
        loops.run(None, None)
        tell("unchecked", programs, sorted(programs[0].written())[0], [])
        return
    loops.run(log, None)
    log.close()
    for conflict in log.overwritten():
        tell("write_write", programs, conflict.buffer, [loops.indices(p) for p in conflict.points])
    found = _read_conflict(loops, log)
    if found is not None:
        tell("read_write", programs, found.buffer, [loops.indices(p) for p in found.points])
    if found is not None or log.overwritten():
        log.restore()
        for start, stop in log.pieces(len(parts) > 1):
            loops.run(None, (start, stop))


class Conflict(NamedTuple):
    """Two points that touch one element of a buffer."""

    buffer: str
    points: Tuple[int, int]


class _Loops:
    """Nests over the points of the loops that they share."""

    def __init__(
        self,
        parts: Parts,
        sizes: Sequence[Sequence[int]],
        shared: int,
        memory: Memory,
        size_of: SizeOf,
    ) -> None:
        self.parts = parts
        self.sizes = sizes
        self.shared = shared
        self.memory = memory
        self.size_of = size_of
        self.points = math.prod(sizes[0][:shared])

    def storages(self) -> Dict[int, List[torch.Tensor]]:
        """The memory that the nests write, by address, seen as each buffer that lies in it."""
        flats = [
            (self.memory(name), name in program.written())
            for program, _ in self.parts
            for name in sorted(program.buffers())
        ]
        written = {flat.untyped_storage().data_ptr() for flat, writes in flats if writes}
        found: Dict[int, List[torch.Tensor]] = {}
        for flat, _ in flats:
            pointer = flat.untyped_storage().data_ptr()
            if pointer in written:
                found.setdefault(pointer, []).append(flat)
        return found

    def run(self, log: Optional[Any], piece: Optional[Tuple[int, int]]) -> None:
        """Execute the nests in turn over some points, all if `piece` is None."""
        start, stop = piece or (0, self.points)
        for number, ((program, device), row) in enumerate(zip(self.parts, self.sizes)):
            ids = torch.arange(start, stop, dtype=torch.int64, device=device)
            written = {self.memory(name).untyped_storage().data_ptr() for name in program.written()}
            space = _Points(program, row, self.shared, ids, self.memory, self.size_of, device, written)
            space.log, space.nest = log, number
            space.execute(program.instructions)

    def indices(self, point: int) -> List[int]:
        """The index of each shared loop at a point."""
        found: List[int] = []
        for size in reversed(self.sizes[0][: self.shared]):
            found.insert(0, point % size)
            point //= size
        return found


class _Points(Space):
    """A list of points of the shared loops, in the first dimension; the loops inside a point follow."""

    log: Optional[_Log] = None
    nest = 0

    def __init__(
        self,
        program: Program,
        sizes: Sequence[int],
        shared: int,
        ids: torch.Tensor,
        memory: Memory,
        size_of: SizeOf,
        device: torch.device,
        written: Any,
    ) -> None:
        ranges = [(0, len(ids)), *[(0, 1)] * (shared - 1), *[(0, size) for size in sizes[shared:]]]
        super().__init__(program, ranges, memory, size_of, device, written)
        self.ids = ids.reshape([-1, *[1] * (len(ranges) - 1)])
        self._sizes = list(sizes[:shared])
        rest = self.ids
        for (symbol, _), size in reversed(list(zip(program.loops, self._sizes))):
            self._starts.pop(symbol)
            self._symbols[symbol] = rest % size
            rest = torch.div(rest, size, rounding_mode="floor")

    def op_load(self, name: str, index: Any) -> torch.Tensor:
        flat = self.memory(name)
        if self.log is None or not self.log.keeps(flat):
            return super().op_load(name, index)
        return self.gather(flat, self.index(index), name)

    def gather(self, flat: torch.Tensor, where: torch.Tensor, name: str) -> torch.Tensor:
        if self.log is None or not self.log.keeps(flat):
            return super().gather(flat, where, name)
        mask = self._mask
        if mask is not None:
            where = torch.where(mask, where, torch.zeros_like(where))
        problem = loop_memory.outside("reads", name, where, flat)
        if problem is not None:
            raise problem
        return self.log.read(self, flat, where, name, mask)

    def op_store(self, name: str, index: Any, value: Any, mode: Optional[str]) -> None:
        if self.log is None:
            super().op_store(name, index, value, mode)
        else:
            self.log.write(self, self.memory(name), self.index(index), self.value(value), name, mode)

    def point(self, position: int, shape: Sequence[int]) -> List[int]:
        """The iteration at a flat position of a value of that shape."""
        at = super().point(position, shape)
        point = int(self.ids.flatten()[at[0]])
        shared: List[int] = []
        for size in reversed(self._sizes):
            shared.insert(0, point % size)
            point //= size
        return shared + at[len(shared) :]


class _Log:
    """The accesses of a first run, and what each point would have read in another order."""

    def __init__(self, storages: Dict[int, List[torch.Tensor]], points: int) -> None:
        self.points = points
        self.uniform = all(len({flat.dtype for flat in flats}) == 1 for flats in storages.values())
        self._whole = {pointer: _whole(flats[0]) for pointer, flats in storages.items()}
        self._before = {pointer: whole.clone() for pointer, whole in self._whole.items()}
        self._reads: List[Access] = []
        self._writes: List[Access] = []
        self._values: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = {}  # per store: where, what
        self._increments: List[Tuple[Optional[str], torch.Tensor]] = []
        self._events: Dict[int, int] = {}  # how many accesses each nest has made so far
        self._tables: Dict[int, Writes] = {}

    def keeps(self, flat: torch.Tensor) -> bool:
        """Whether accesses to that memory matter."""
        return flat.untyped_storage().data_ptr() in self._whole

    def _event(self, space: _Points) -> int:
        count = self._events.get(space.nest, 0)
        self._events[space.nest] = count + 1
        return (space.nest << NEST) + count

    def read(
        self, space: _Points, flat: torch.Tensor, where: torch.Tensor, name: str, mask: Any
    ) -> torch.Tensor:
        """Read memory as it is, and note it."""
        self._reads.append(self._access(space, flat, where, name, mask))
        return loop_memory.gather(flat, where, name, None)

    def _access(self, space: _Points, flat: torch.Tensor, where: torch.Tensor, name: str, mask: Any) -> Any:
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
        space: _Points,
        flat: torch.Tensor,
        where: torch.Tensor,
        what: torch.Tensor,
        name: str,
        mode: Optional[str],
    ) -> None:
        """Write memory, and note it."""
        shape = torch.broadcast_shapes(where.shape, what.shape, space.ids.shape)
        shape = torch.Size(space.shape) if mode is not None else shape
        where, what = where.expand(shape), what.expand(shape)
        space.scatter(flat, where, what, name, mode)
        access = self._access(space, flat, where, name, None)
        self._values[access.event] = where, what.to(flat.dtype)
        self._writes.append(access)
        self._increments.append((mode, what.to(flat.dtype).reshape(-1)))

    def close(self) -> None:
        """The first run has ended: order what it wrote."""
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
        """Put the memory back as it was before the first run."""
        for pointer, whole in self._whole.items():
            whole.copy_(self._before[pointer])

    def again(self, alone: bool) -> _Again:
        """A second run, in which the points come in another order."""
        return _Again(self, self._tables, self._values, alone)

    def passes_on(self) -> bool:
        """Whether something is read after a store to the same memory."""
        first: Dict[int, int] = {}
        for access in self._writes:
            first[access.storage] = min(access.event, first.get(access.storage, access.event))
        return any(access.event > first.get(access.storage, access.event) for access in self._reads)

    def writer_of(self, point: int) -> Conflict:
        """The first of what a point reads that another point writes."""
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
        """Elements whose last value comes from another nest if the points come in another order."""
        found = []
        for pointer, table in self._tables.items():
            pair = table.overtaken()
            if pair is not None:
                names = [access.name for access in self._writes if access.storage == pointer]
                found.append(Conflict(names[-1], pair))
        return found

    def pieces(self, fused: bool) -> List[Tuple[int, int]]:
        """Runs of points inside which the order does not matter."""
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


class _Again:
    """A second run that writes nothing: it reads what another order leaves, and compares what it stores."""

    def __init__(
        self,
        log: _Log,
        tables: Dict[int, Writes],
        values: Dict[int, Tuple[torch.Tensor, torch.Tensor]],
        alone: bool,
    ) -> None:
        self.keeps = log.keeps
        self.differs: Optional[int] = None  # the first point that stores something else
        self._tables = tables
        self._values = values
        self._alone = alone
        self._events: Dict[int, int] = {}

    def _event(self, space: _Points) -> int:
        count = self._events.get(space.nest, 0)
        self._events[space.nest] = count + 1
        return (space.nest << NEST) + count

    def read(
        self, space: _Points, flat: torch.Tensor, where: torch.Tensor, name: str, mask: Any
    ) -> torch.Tensor:
        """Read memory as the points find it in another order."""
        event = self._event(space)
        table = self._tables.get(flat.untyped_storage().data_ptr())
        if table is None:
            return loop_memory.gather(flat, where, name, None)
        where, point = torch.broadcast_tensors(where, space.ids)
        found = table.reads(where.reshape(-1) + flat.storage_offset(), point.reshape(-1), event, self._alone)
        return found.reshape(where.shape).to(compute_dtype(flat.dtype))

    def write(
        self,
        space: _Points,
        flat: torch.Tensor,
        where: torch.Tensor,
        what: torch.Tensor,
        name: str,
        mode: Optional[str],
    ) -> None:
        """Compare with what the first run stored."""
        old_where, old = self._values[self._event(space)]
        changed = (where.expand(old.shape) != old_where) | differ(what.to(flat.dtype).expand(old.shape), old)
        if self.differs is None and bool(changed.any()):
            first = int(torch.nonzero(changed)[0][0])
            self.differs = int(space.ids.flatten()[first])


def _read_conflict(loops: _Loops, log: _Log) -> Optional[Conflict]:
    """A point that stores something else if other points come before it, or after it."""
    for alone in [False, True] if log.passes_on() else [False]:
        again = log.again(alone)
        try:
            loops.run(again, None)
        except (IndexError, RuntimeError):
            # With what another point wrote an index is out of bounds: the order matters.
            again.differs = 0 if again.differs is None else again.differs
        if again.differs is not None:
            return log.writer_of(again.differs)
    return None
