"""Computes the strides of operands over a kernel's space, and reshapes that need no copy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel_lab.mock.device import FORMATS
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.ir.loop_ir import View

#: By lanes of a stick: the format that holds every value of another exactly. It lets a tensor join a kernel
#: with wider words.
_CARRIERS: dict[int, dict[str, str]] = {
    16: dict.fromkeys(("bool", "uint8", "int8", "int16", "int32", "int64"), "int64"),
    32: {
        "fp32": "fp32",
        "fp16": "fp32",
        "bf16": "fp32",
        "int32": "int32",
        "int16": "int32",
        "int8": "int32",
        "uint8": "int32",
        "bool": "int32",
    },
    64: {
        "fp16": "fp16",
        "bf16": "bf16",
        "int16": "int16",
        "int8": "int16",
        "uint8": "int16",
        "bool": "int16",
    },
    128: {"int8": "int8", "uint8": "uint8", "bool": "bool"},
}
LANE_COUNTS = tuple(_CARRIERS)


def carrier(format_name: str, lanes: int) -> str | None:
    """Returns the format with that many lanes that holds every value of another exactly, or None."""
    return _CARRIERS[lanes].get(format_name)


@dataclass(frozen=True, kw_only=True)
class Space:
    """The iteration space of a strided kernel: loops in ``order``, the last cut into sticks of ``lanes``."""

    loops: tuple[int, ...]
    order: tuple[int, ...]
    lanes: int

    @property
    def stick(self) -> int | None:
        """The loop that runs along the sticks; None without loops."""
        return self.order[-1] if self.order else None

    @property
    def valid(self) -> int:
        """The extent of the stick loop."""
        return self.loops[self.order[-1]] if self.order else 1

    @property
    def padded(self) -> int:
        """The extent of the stick loop in whole sticks."""
        return -(-self.valid // self.lanes) * self.lanes

    @property
    def axes(self) -> tuple[tuple[int, str], ...]:
        """(loop, kind) of each dimension of the space; the loop is -1 if there are no loops."""
        if not self.order:
            return ((-1, "sticks"), (-1, "lanes"))
        outer, stick = self.order[:-1], self.order[-1]
        before, between = outer[:-1], outer[-1:]
        return (
            *((axis, "outer") for axis in before),
            (stick, "sticks"),
            *((axis, "outer") for axis in between),
            (stick, "lanes"),
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """The extent of each dimension of the space."""
        return tuple(
            self.loops[axis]
            if kind == "outer"
            else self.lanes
            if kind == "lanes"
            else self.padded // self.lanes
            for axis, kind in self.axes
        )


def strides(view: View, layout: Layout, space: Space, *, written: bool = False) -> tuple[int, ...] | None:
    """Returns an operand's stride, in elements, for each dimension of the space.

    None if the element's position is no affine function of the space.
    """
    per_axis: dict[int, tuple[int, int]] = {}
    if not space.order:
        return (space.lanes, 1) if written else (0, 0)
    for axis, dim in enumerate(view.dims):
        found = _axis_strides(axis, dim, layout, space, written)
        if found is None:
            return None
        per_axis[axis] = found
    result = []
    for axis, kind in space.axes:
        wide, narrow = per_axis[axis]
        result.append(narrow if kind == "lanes" else wide)
    return tuple(result)


def _axis_strides(
    axis: int, dim: int | None, layout: Layout, space: Space, written: bool
) -> tuple[int, int] | None:
    """Returns ``(stride, 0)`` for an outer loop, ``(stick stride, lane stride)`` for the stick loop."""
    if dim is None:
        return 0, 0
    wide, narrow = layout.stride_of(dim)
    together = dim == layout.stick_dim and (layout.sticks <= 1 or wide == layout.lanes)
    if axis != space.stick:
        if dim != layout.stick_dim:
            return wide, 0
        return (narrow, 0) if together else None
    if space.valid <= 1 and not written:
        return 0, 0
    if dim == layout.stick_dim:
        if layout.lanes == space.lanes:
            return wide, narrow
        room = layout.sticks * layout.lanes
        return (space.lanes * narrow, narrow) if together and space.padded <= room else None
    if written or space.padded != space.valid:
        return None
    return wide * space.lanes, wide


def same_bytes(layout: Layout, size: tuple[int, ...]) -> Layout | None:
    """Returns the layout that reads a reshaped tensor from the same bytes, or None if there is none."""
    if math.prod(layout.size) != math.prod(size) or 0 in size:
        return None
    factors = _common_factors(layout.size, size)
    if factors is None:
        return None
    old = _factor_strides(layout, factors)
    if old is None:
        return None
    owners = _owners(size, factors)
    lane = next((n for n, (_, narrow) in enumerate(old) if narrow), None)
    orders: list[list[int]] = [[]]
    if size:
        weight: dict[int, int] = {}
        for number, owner in enumerate(owners):
            weight.setdefault(owner, old[number][0])
        stick = owners[lane] if lane is not None else len(size) - 1
        rest = [dim for dim in range(len(size)) if dim != stick]
        ones = [dim for dim in rest if size[dim] == 1]
        moving = sorted((dim for dim in rest if size[dim] != 1), key=lambda dim: -weight[dim])
        # The sticks come before the second last dimension, so it matters whether that has extent 1.
        orders = [[*ones, *moving, stick], [*moving, *ones, stick]]
    for order in orders:
        found = Layout(size=size, order=tuple(order), format=layout.format)
        if found.bytes == layout.bytes and _factor_strides(found, factors) == old:
            return found
    return None


def _common_factors(one: tuple[int, ...], other: tuple[int, ...]) -> list[int] | None:
    """The extents, outermost first, of which both sizes are products in order; None if there are none."""
    left = [extent for extent in one if extent != 1]
    right = [extent for extent in other if extent != 1]
    factors: list[int] = []
    while left and right:
        a, b = left.pop(), right.pop()
        small, large = min(a, b), max(a, b)
        if large % small:
            return None
        factors.append(small)
        if a > b:
            left.append(a // b)
        elif b > a:
            right.append(b // a)
    return factors[::-1]


def _owners(size: tuple[int, ...], factors: list[int]) -> list[int]:
    """The dimension that each factor is part of."""
    owners: list[int] = []
    position = len(factors)
    for dim in range(len(size) - 1, -1, -1):
        product = 1
        while product != size[dim]:
            position -= 1
            product *= factors[position]
            owners.append(dim)
    return owners[::-1]


def _factor_strides(layout: Layout, factors: list[int]) -> list[tuple[int, int]] | None:
    """For each factor ``(stride, 0)``, or ``(stick stride, 1)`` for that of the lanes; None if not affine."""
    owners = _owners(layout.size, factors)
    result: list[tuple[int, int]] = []
    for number, owner in enumerate(owners):
        inner = math.prod(
            factors[later] for later in range(number + 1, len(factors)) if owners[later] == owner
        )
        wide, narrow = layout.stride_of(owner)
        if owner != layout.stick_dim:
            result.append((wide * inner, 0))
        elif inner == 1:
            # Within one stick the stick stride is irrelevant.
            result.append((wide if factors[number] > layout.lanes else 0, narrow))
        elif inner % layout.lanes == 0:
            result.append((wide * (inner // layout.lanes), 0))
        else:
            return None
    return result


assert all(FORMATS[name].lanes == lanes for lanes, table in _CARRIERS.items() for name in table.values())
