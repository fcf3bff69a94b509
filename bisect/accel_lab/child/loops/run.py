"""Runs loop nests on memory, one after another or as fused loops like those of generated code."""

from __future__ import annotations

import math
from typing import Callable, List, Sequence, Set, Tuple

import torch

from .access import Memory, Nests, SizeOf
from .index_expressions import blocks, evaluate
from .nest_trace import NotInterpretable, Program
from .operations import Space
from .order import run_checked

#: Points of an iteration space that are processed at once.
CHUNK = 1 << 22
#: Limit on the points at which fused loops are run one by one.
MOST_POINTS = 1024

Parts = Sequence[Tuple[Program, torch.device]]
Run = Callable[[Parts, Memory, SizeOf], None]


def run_in_turn(parts: Parts, memory: Memory, size_of: SizeOf) -> None:
    """Runs loop nests one after another; `memory` maps a buffer's name to its flat storage."""
    for part in parts:
        run_fused([part], memory, size_of)


def run_fused(parts: Parts, memory: Memory, size_of: SizeOf) -> None:
    """Runs loop nests that share their outermost loops.

    Each nest is computed as a whole and reads everything before it writes, which is one valid order of many.
    If the result depends on the order, that is noted, and the nests are run in loop order.
    """
    parts = [part for part in parts if 0 not in _sizes(part[0], size_of)[: part[0].iteration_loops]]
    programs = [program for program, _ in parts]
    sizes = [_sizes(program, size_of) for program in programs]
    shared = _shared(programs, sizes)
    suspect = shared and Nests(programs, sizes, shared, memory, size_of).could_conflict()
    if suspect and run_checked(parts, sizes, shared, memory, size_of):
        return
    if len(parts) > 1:
        run_in_turn(parts, memory, size_of)  # checks each nest alone, over all of its iteration loops
    else:
        for part, row in zip(parts, sizes):
            _run(part, row, memory, size_of)


def _run(part: Tuple[Program, torch.device], sizes: List[int], memory: Memory, size_of: SizeOf) -> None:
    program, device = part
    written = _written(program, memory)
    for piece in blocks(sizes, program.iteration_loops, CHUNK):
        ranges = piece + [(0, size) for size in sizes[program.iteration_loops :]]
        Space(program, ranges, memory, size_of, device, written).execute(program.instructions)


def run_together(parts: Parts, memory: Memory, size_of: SizeOf) -> None:
    """Runs loop nests as fused loops: all of them at one point of the shared loops, then at the next.

    Raises NotInterpretable if there are too many points.
    """
    sizes = [_sizes(program, size_of) for program, _ in parts]
    shared = _shared([program for program, _ in parts], sizes)
    if len(parts) < 2 or not shared:
        run_in_turn(parts, memory, size_of)
        return
    while math.prod(sizes[0][:shared]) > MOST_POINTS:
        shared -= 1
        if not shared:
            raise NotInterpretable("fused loops over too many points to run them one by one")
    written = [_written(program, memory) for program, _ in parts]
    for point in blocks(sizes[0][:shared], shared, 1):
        for (program, device), row, names in zip(parts, sizes, written):
            if 0 not in row[: program.iteration_loops]:
                ranges = point + [(0, size) for size in row[shared:]]
                Space(program, ranges, memory, size_of, device, names).execute(program.instructions)


def _sizes(program: Program, size_of: SizeOf) -> List[int]:
    return [int(evaluate(size, size_of)) for _, size in program.loops]


def _shared(programs: Sequence[Program], sizes: Sequence[Sequence[int]]) -> int:
    """The number of outermost loops that all nests have in common."""
    most = min((program.iteration_loops for program in programs), default=0)
    return next((n for n in range(most) if len({row[n] for row in sizes}) > 1), most)


def _written(program: Program, memory: Memory) -> Set[int]:
    """The addresses of the storages that a loop nest writes."""
    return {memory(name).untyped_storage().data_ptr() for name in program.written()}
