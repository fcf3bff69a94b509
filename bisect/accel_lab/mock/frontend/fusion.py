"""Fuses chains of pointwise nests, also into reductions, so that intermediates need no memory."""

from __future__ import annotations

from accel_lab.mock.ir.loop_ir import HostNest, LoopProgram, Nest

from .access import LANE_COUNTS, carrier

MOST_STATEMENTS = 32
MOST_OPERANDS = 24


def fuse(program: LoopProgram) -> None:
    """Fuses each strided nest into the latest nest that it reads from, if both have the same loops; in place.

    All its other inputs were computed before that nest, so it can move up.
    """
    groups: list[Nest | HostNest] = []
    made_at: dict[str, int] = {}
    readers = _readers(program)
    for nest in program.nests:
        latest = max((made_at.get(name, -1) for name in nest.inputs), default=-1)
        target = groups[latest] if latest >= 0 else None
        if isinstance(nest, Nest) and isinstance(target, Nest) and _can_join(program, target, nest, readers):
            _join(target, nest)
            position = latest
        else:
            groups.append(nest)
            position = len(groups) - 1
        for name in nest.produced:
            made_at[name] = position
    program.nests = groups
    _drop_stores(program)


def _readers(program: LoopProgram) -> dict[str, set[str]]:
    """Maps each buffer to the names of the nests that read it; a result counts as ``output``."""
    readers: dict[str, set[str]] = {}
    for nest in program.nests:
        for name in nest.inputs:
            readers.setdefault(name, set()).add(nest.name)
    for result in program.results:
        if result.view is not None:
            readers.setdefault(result.view.buffer, set()).add("output ")
    return readers


def _can_join(program: LoopProgram, target: Nest, nest: Nest, readers: dict[str, set[str]]) -> bool:
    if target.unit != "pointwise" or not nest.strided or nest.loops != target.loops:
        return False
    if len(target.body) + len(nest.body) > MOST_STATEMENTS:
        return False
    inside = target.produced
    if any(view.buffer in inside and not view.is_identity for view in nest.read_views):
        return False
    if nest.unit == "reduction" and any(
        readers.get(name, set()) - {nest.name, *_members(target)} for name in inside
    ):
        return False
    outside = [view.buffer for view in (*target.read_views, *nest.read_views) if view.buffer not in inside]
    stored = [*target.writes.values(), *nest.writes.values()]
    if nest.unit == "reduction":
        stored = list(nest.writes.values())
    if len(set(outside)) + len(stored) > MOST_OPERANDS:
        return False
    formats = {program.buffers[name].format for name in (*outside, *stored)}
    return any(all(carrier(name, lanes) for name in formats) for lanes in LANE_COUNTS)


def _members(target: Nest) -> set[str]:
    """The names of the nests that were fused into one; each is named after a buffer that it fills."""
    return {target.name, *(line.output for line in target.body)}


def _join(target: Nest, nest: Nest) -> None:
    target.body = [*target.body, *nest.body]
    target.origins = tuple(dict.fromkeys((*target.origins, *nest.origins)))
    target.source = nest.source or target.source
    target.op = "fused"
    if nest.unit == "reduction":
        target.unit = "reduction"
        target.op = nest.op
        target.reduced = nest.reduced
        target.writes = dict(nest.writes)
    else:
        target.writes = {**target.writes, **nest.writes}


def _drop_stores(program: LoopProgram) -> None:
    """Removes stores that no other nest or result reads."""
    uses = program.uses()
    for nest in program.nests:
        if isinstance(nest, Nest) and nest.unit == "pointwise":
            nest.writes = {key: name for key, name in nest.writes.items() if uses[name]}
