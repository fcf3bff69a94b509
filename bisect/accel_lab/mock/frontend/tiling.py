"""Divides kernels over cores and into steps: evenly, outermost first, never along reduced dimensions.

Steps shrink a core's share until it fits the scratchpad and the addressable span.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accel_lab.mock import faults
from accel_lab.mock.device import FORMATS, STICK_BYTES, Device
from accel_lab.mock.ir.loop_ir import HostNest, LoopBuffer, LoopProgram, Nest, View

from .access import Space, strides
from .layout_choice import written_view

#: Units that run on one core.
_UNDIVIDED = ("scatter",)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One dimension of a kernel's space. A core's share must be a multiple of ``unit`` elements."""

    extent: int
    divisible: bool
    unit: int = 1


def divisors(number: int) -> list[int]:
    """Returns all divisors, ascending."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def divide(axes: Sequence[Axis], cores: int) -> list[int]:
    """Returns the cores of each dimension, greedily: the largest divisor that fits, outermost first."""
    left, result = cores, []
    for axis in axes:
        share = 1
        if axis.divisible and axis.extent > 1:
            if faults.active("split_gcd_collapsed") and axis.extent % 2 and axis.extent > left > 1:
                # Fault: extent and stick have no common divisor, so all cores get the floor.
                share = left
            else:
                fitting = [n for n in divisors(axis.extent) if n <= left]
                share = max((n for n in fitting if (axis.extent // n) % axis.unit == 0), default=1)
        result.append(share)
        left //= share
    return result


def next_step(axes: Sequence[Axis], cores: Sequence[int], steps: Sequence[int]) -> list[int] | None:
    """Returns the steps with the largest share cut once more; None if nothing can be cut."""
    shares = [
        axis.extent // (core * step) if axis.divisible else 1
        for axis, core, step in zip(axes, cores, steps, strict=True)
    ]
    position = max(range(len(shares)), key=lambda n: shares[n], default=-1)
    if position < 0 or shares[position] <= 1:
        return None
    smallest = next(n for n in divisors(shares[position]) if n > 1)
    return [step * smallest if n == position else step for n, step in enumerate(steps)]


def tile(program: LoopProgram, device: Device) -> None:
    """Sets cores, steps and scratchpad addresses of every nest, in place."""
    for nest in program.nests:
        if isinstance(nest, HostNest):
            continue
        if nest.strided:
            _tile_strided(program, nest, device)
        else:
            axes = axes_by_layout(nest, program.buffers)
            nest.cores = tuple(divide(axes, device.cores))
            nest.steps = (1,) * len(axes)


def axes_by_layout(nest: Nest, buffers: dict[str, LoopBuffer]) -> list[Axis]:
    """Returns the space of a by-layout unit: the result's dimensions, plus k for matmul."""
    result = buffers[next(iter(nest.writes.values()))]
    closed = {nest.attributes.get("dim")} if nest.unit in ("scan", "sort") else set()
    stick = result.layout.stick_dim
    axes = [
        Axis(
            extent=extent,
            divisible=nest.unit not in _UNDIVIDED and dim not in closed,
            unit=result.layout.lanes if dim == stick else 1,
        )
        for dim, extent in enumerate(result.size)
    ]
    if nest.unit == "matmul":
        axes.append(Axis(extent=nest.reads["left"].size[-1], divisible=False))
    return axes


def _tile_strided(program: LoopProgram, nest: Nest, device: Device) -> None:
    space = Space(loops=nest.loops, order=nest.order, lanes=nest.lanes)
    axes = [
        Axis(extent=extent, divisible=kind != "lanes" and axis not in nest.reduced)
        for extent, (axis, kind) in zip(space.extents, space.axes, strict=True)
    ]
    cores = divide(axes, device.cores)
    steps: list[int] | None = [1] * len(axes)
    reaches = _reaches(program, nest, space)
    use = device.use_scratchpad
    while steps is not None:
        shares = [axis.extent // (core * step) for axis, core, step in zip(axes, cores, steps, strict=True)]
        placed = place_locals(program, nest, math.prod(shares)) if use else {}
        within = _size(program, nest, placed, math.prod(shares)) <= device.scratchpad_bytes
        if within and all(_reach(shares, stride, word) <= device.span_bytes for stride, word in reaches):
            break
        steps = next_step(axes, cores, steps)
    else:
        use, placed = False, {}
    nest.cores = tuple(cores)
    nest.steps = tuple(steps or [1] * len(axes))
    nest.scratch = placed if use else {}
    if not use:
        _spill(program, nest, space)


def _reaches(program: LoopProgram, nest: Nest, space: Space) -> list[tuple[tuple[int, ...], int]]:
    """(strides, word bytes) of every operand in main memory."""
    found = []
    views: list[tuple[View, bool]] = [(view, False) for view in nest.read_views]
    views += [(written_view(nest, program.buffers[name]), True) for name in nest.writes.values()]
    for view, written in views:
        layout = program.buffers[view.buffer].layout
        stride = strides(view, layout, space, written=written)
        assert stride is not None, (nest.name, view)
        found.append((stride, layout.number.word_bytes))
    return found


def _reach(shares: Sequence[int], stride: Sequence[int], word: int) -> int:
    """Bytes from the first to the last element that a core touches in one step."""
    return word * (1 + sum((share - 1) * step for share, step in zip(shares, stride, strict=True)))


def _bytes(program: LoopProgram, name: str, share: int) -> int:
    count = share * FORMATS[program.buffers[name].format].word_bytes
    return -(-count // STICK_BYTES) * STICK_BYTES


def _size(program: LoopProgram, nest: Nest, placed: dict[str, int], share: int) -> int:
    return max((address + _bytes(program, name, share) for name, address in placed.items()), default=0)


def place_locals(program: LoopProgram, nest: Nest, share: int) -> dict[str, int]:
    """Returns scratchpad addresses of a nest's locals, ``share`` elements each; reuses dead locals' space."""
    names = nest.locals
    made = {line.output: number for number, line in enumerate(nest.body)}
    last = dict(made)
    for number, line in enumerate(nest.body):
        for view in line.views:
            if view.buffer in last:
                last[view.buffer] = number
    placed: dict[str, int] = {}
    for name in names:
        size = _bytes(program, name, share)
        if faults.active("scratchpad_overlap") and (live := _still_read(program, nest, name, placed, last)):
            # Fault: a local counts as dead from its second last use on.
            placed[name] = placed[live]
            continue
        taken = sorted(
            (placed[other], placed[other] + _bytes(program, other, share))
            for other in placed
            if last[other] >= made[name]
        )
        address = 0
        for start, end in taken:
            if address + size <= start:
                break
            address = max(address, end)
        placed[name] = address
    return placed


def _still_read(
    program: LoopProgram, nest: Nest, name: str, placed: dict[str, int], last: dict[str, int]
) -> str | None:
    """A local of the same format that is read after this one was filled; locals of masks are excluded."""
    lines = {line.output: number for number, line in enumerate(nest.body) if line.op != "mask_tail"}
    if name not in lines:
        return None
    have = program.buffers[name].format
    return next(
        (
            other
            for other in placed
            if other in lines and program.buffers[other].format == have and last[other] > lines[name]
        ),
        None,
    )


def _spill(program: LoopProgram, nest: Nest, space: Space) -> None:
    """Gives each local a dense buffer in main memory, of the kernel's whole space."""
    for name in nest.locals:
        made = LoopBuffer(
            name=f"{name}_spilled",
            size=space.extents,
            format=program.buffers[name].format,
            order=tuple(range(len(space.extents))),
        )
        program.buffers[made.name] = made
        nest.spilled[name] = made.name
