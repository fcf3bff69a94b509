"""Runs loops that could conflict, and detects whether their result depends on the order of iterations.

A point is one index of the loops that the nests share. The nests run one after another, and every access to
memory that they write is logged. Each point is then computed again as if all other points had finished before
it and, if a nest reads what an earlier one wrote, as if no other point had started. If a point then stores
another value, the loops depend on their order. They are run again in loop order, like generated scalar code,
so that a wrong result shows.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from . import memory as loop_memory
from .access import Memory, SizeOf
from .access_log import Conflict, Log
from .conflicts import note_conflict
from .nest_trace import Program
from .operations import Space

#: Largest iteration space, in points of all loops, that is checked for conflicts.
MOST_CHECKED = 1 << 21

Parts = Sequence[Tuple[Program, torch.device]]


def run_checked(
    parts: Parts, sizes: Sequence[Sequence[int]], shared: int, memory: Memory, size_of: SizeOf
) -> bool:
    """Runs nests that share their outermost loops one after another, or in loop order if the order matters.

    Returns False and runs nothing if this cannot be checked: too many points, or memory used as two dtypes.
    """
    loops = _Loops(parts, sizes, shared, memory, size_of)
    programs = [program for program, _ in parts]
    storages = loops.storages()
    two_types = any(len({flat.dtype for flat in flats}) > 1 for flats in storages.values())
    if two_types or max(math.prod(row) for row in sizes) > MOST_CHECKED:
        note_conflict("unchecked", programs, sorted(programs[0].written())[0], [])
        return False
    log = Log(storages, loops.points)
    loops.run(log, None)
    log.close()
    for conflict in log.overwritten():
        note_conflict("write_write", programs, conflict.buffer, [loops.indices(p) for p in conflict.points])
    found = _read_conflict(loops, log)
    if found is not None:
        note_conflict("read_write", programs, found.buffer, [loops.indices(p) for p in found.points])
    if found is not None or log.overwritten():
        log.restore()
        for start, stop in log.pieces(len(parts) > 1):
            loops.run(None, (start, stop))
    return True


class _Loops:
    """Loop nests with the loops that they share."""

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
        """Returns the written storages by address, each as the flat tensors of its buffers."""
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
        """Runs the nests one after another over the points of `piece`, or over all points if it is None."""
        start, stop = piece or (0, self.points)
        for number, ((program, device), row) in enumerate(zip(self.parts, self.sizes)):
            ids = torch.arange(start, stop, dtype=torch.int64, device=device)
            written = {self.memory(name).untyped_storage().data_ptr() for name in program.written()}
            space = Points(program, row, self.shared, ids, self.memory, self.size_of, device, written)
            space.log, space.nest = log, number
            space.execute(program.instructions)

    def indices(self, point: int) -> List[int]:
        """Returns the index of each shared loop at a point."""
        found: List[int] = []
        for size in reversed(self.sizes[0][: self.shared]):
            found.insert(0, point % size)
            point //= size
        return found


class Points(Space):
    """A space whose first dimension is a list of points of the shared loops; inner loops follow."""

    log: Optional[Log] = None
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
        """Returns the loop indices at a flat position of a value of that shape."""
        at = super().point(position, shape)
        point = int(self.ids.flatten()[at[0]])
        shared: List[int] = []
        for size in reversed(self._sizes):
            shared.insert(0, point % size)
            point //= size
        return shared + at[len(shared) :]


def _read_conflict(loops: _Loops, log: Log) -> Optional[Conflict]:
    """The conflict of a point that stores another value if other points run before or after it, or None."""
    for runs_first in [False, True] if log.passes_on() else [False]:
        replay = log.replay(runs_first)
        try:
            loops.run(replay, None)
        except (IndexError, RuntimeError):
            # A value that another point wrote makes an index out of bounds, so the order matters.
            replay.differs = 0 if replay.differs is None else replay.differs
        if replay.differs is not None:
            return log.writer_of(replay.differs)
    return None
