"""Iteration spaces of the reference front end's kernels, and strides of row-major tensors over them."""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.spec.kernel_spec import Dim


def logical_space(size: Sequence[int]) -> list[Dim]:
    """Returns an iteration space over logical dimensions."""
    return [Dim(name=f"d{d}", extent=extent) for d, extent in enumerate(size)]


def device_space(layout: Layout) -> list[Dim]:
    """Returns the iteration space over a layout's device dimensions."""
    rank = len(layout.device_size)
    sticks = max(rank - 3, 0)
    dims = []
    for position, extent in enumerate(layout.device_size):
        kind = "lanes" if position == rank - 1 else ("sticks" if position == sticks else "outer")
        name = f"d{layout.dim_map[position]}" if kind == "outer" else kind
        dims.append(Dim(name=name, extent=extent, kind=kind))
    return dims


def broadcast_strides(source: Layout, target: Layout) -> tuple[int, ...]:
    """Returns a row-major tensor's strides along the device dimensions of its broadcast target.

    Both must have the same number of lanes, or the source has one element along the sticks.
    """
    missing = len(target.size) - len(source.size)
    rank = len(target.device_size)
    strides = []
    for position, logical in enumerate(target.dim_map):
        own = logical - missing
        if logical < 0:
            strides.append(source.device_strides[position])
        elif own < 0 or (source.size[own] == 1 and target.size[logical] != 1):
            strides.append(0)
        else:
            strides.append(source.stride_of(own)[int(position == rank - 1)])
    return tuple(strides)
