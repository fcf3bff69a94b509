"""Tests by index expressions alone whether two iterations of fused loops could access the same element."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import sympy
import torch

from .index_expressions import affine
from .memory import Strided
from .nest_trace import Program, walk

Memory = Callable[[str], torch.Tensor]
SizeOf = Callable[[sympy.Symbol], Any]


class Form(NamedTuple):
    """The offsets of an access, linear in the shared loops and in the loops inside a point."""

    unit: int  # bytes of an element
    offset: int
    shared: Tuple[Tuple[int, int], ...]  # (stride, size) of each shared loop
    inner: Tuple[Tuple[int, int], ...]  # (stride, size) of the loops inside a point; stride 0 is left out

    def span(self) -> Tuple[int, int]:
        """Returns the lowest and the highest offset."""
        reach = [stride * (size - 1) for stride, size in self.shared + self.inner]
        return self.offset + sum(min(0, r) for r in reach), self.offset + sum(max(0, r) for r in reach)


class Access(NamedTuple):
    """One load or store of the nest ``program``."""

    program: int
    name: str
    writes: bool
    index: Any  # None for a binary search (bucketize)


class Nests(NamedTuple):
    """Loop nests that share their ``shared`` outermost loops, with the sizes of all loops."""

    programs: Sequence[Program]
    sizes: Sequence[Sequence[int]]
    shared: int
    memory: Memory
    size_of: SizeOf

    def form(self, access: Access) -> Optional[Form]:
        """Returns the form of an access; None if its index is not linear in the loop variables."""
        program, index = self.programs[access.program], access.index
        read = {i.args[0] for i in walk(program.instructions) if i.name == "indirect_indexing"}
        if index is None or (isinstance(index, sympy.Basic) and index.free_symbols & read):
            return None
        symbols = [symbol for symbol, _ in program.loops]
        linear = affine(index, symbols, self.size_of)
        if linear is None:
            return None
        flat = self.memory(access.name)
        steps = [(linear[1].get(s, 0), size) for s, size in zip(symbols, self.sizes[access.program])]
        inner: Dict[int, int] = {}
        for stride, size in steps[self.shared :]:
            if stride:
                inner[stride] = inner.get(stride, 1) + size - 1
        offset = linear[0] + flat.storage_offset()
        return Form(flat.element_size(), offset, tuple(steps[: self.shared]), tuple(sorted(inner.items())))

    def could_conflict(self) -> bool:
        """Whether a point of the shared loops could access an element that another point writes.

        Does not check whether one nest writes an element twice, as each store checks that itself.
        """
        by_storage: Dict[int, List[Access]] = {}
        written = set()
        for number, program in enumerate(self.programs):
            for name, writes, index in accesses(program):
                pointer = self.memory(name).untyped_storage().data_ptr()
                by_storage.setdefault(pointer, []).append(Access(number, name, writes, index))
                if writes:
                    written.add(pointer)
        return any(self._meet(by_storage[pointer]) for pointer in written)

    def _meet(self, row: List[Access]) -> bool:
        if all(access.writes and access.program == row[0].program for access in row):
            return False
        forms = [self.form(access) for access in row]
        for position, (one, form) in enumerate(zip(row, forms)):
            for two, other in zip(row[:position], forms):
                own = one.writes and two.writes and one.program == two.program
                if (one.writes or two.writes) and not own and not _apart(form, other):
                    return True
        return False


def accesses(program: Program) -> List[Tuple[str, bool, Any]]:
    """Lists ``(buffer, writes, index)`` of all loads and stores of a loop body."""
    found: List[Tuple[str, bool, Any]] = []
    for instruction in walk(program.instructions):
        if instruction.name in ("load", "load_seed"):
            found.append((instruction.args[0], False, instruction.args[1]))
        elif instruction.name in ("store", "store_reduction"):
            found.append((instruction.args[0], True, instruction.args[1]))
        elif instruction.name == "bucketize":
            found.extend((arg[0], False, None) for arg in instruction.args if isinstance(arg, tuple))
    return found


def _apart(one: Optional[Form], two: Optional[Form]) -> bool:
    """Whether different points of the two accesses can never touch the same element."""
    if one is None or two is None or one.unit != two.unit:
        return False
    (low, high), (other_low, other_high) = one.span(), two.span()
    if high < other_low or other_high < low:
        return True
    if one.offset != two.offset or one.shared != two.shared:
        return False
    inner: Dict[int, int] = {}
    for stride, size in one.inner + two.inner:
        inner[stride] = max(size, inner.get(stride, 1))
    steps = [*one.shared, *inner.items()]
    return Strided([size for _, size in steps], [stride for stride, _ in steps], 0).one_to_one()
