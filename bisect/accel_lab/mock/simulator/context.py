"""Shared base of the simulator's units: a kernel's memory, work division and operands.

A kernel is prepared once as a list of calls without arguments on views of the device's bytes; running it
again only makes those calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from accel_lab.mock.device import Device, accumulator
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.runtime.memory import Memory, Region
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Operand
from accel_lab.mock.spec.problem import Problem, SpecError

from .layout_views import fill_padding, stick_views, strided_view

Call = Callable[[], Any]
Load = Callable[[], torch.Tensor]
Store = Callable[[torch.Tensor], None]


def slice_of(dim: Dim) -> int:
    """Returns the extent that one core processes in one step."""
    return dim.extent // (dim.cores * dim.steps)


def covered(dim: Dim) -> int:
    """Returns the extent that all cores and steps process; less than ``extent`` if that is not divisible."""
    return dim.cores * dim.steps * slice_of(dim)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One kernel at one base address of a device."""

    memory: Memory
    scratchpads: Region
    device: Device
    base: int
    spec: KernelSpec

    def refuse(self, rule: str, message: str) -> SpecError:
        """Returns the error that rejects this kernel."""
        return SpecError([Problem(kernel=self.spec.name, rule=rule, message=message)])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns an attribute of the kernel."""
        return self.spec.attributes.get(name, default)

    def load(self, operand: Operand, dtype: torch.dtype | None = None) -> Load:
        """Returns a function that loads an operand's logical tensor, as a view of the bytes if possible."""
        wanted = dtype or operand.layout.number.torch_dtype
        address = self.base + operand.address
        view = strided_view(self.memory, operand.layout, address)
        if view is not None:
            return (lambda: view) if view.dtype == wanted else (lambda: view.to(wanted))
        views = stick_views(self.memory, operand.layout, address)
        return lambda: views.load(wanted)

    def store(self, operand: Operand) -> Store:
        """Returns a function that stores a logical tensor, up to the covered extent, and fills padding."""
        layout, address = operand.layout, self.base + operand.address
        views = stick_views(self.memory, layout, address)
        poison = self.device.poison
        space = self.spec.space[: len(layout.size)]
        part = tuple(covered(dim) for dim in space)
        whole = part == layout.size or tuple(dim.extent for dim in space) != layout.size

        def store(value: torch.Tensor) -> None:
            if not whole:
                index = tuple(slice(0, end) for end in part)
                kept = views.load(layout.number.torch_dtype)
                kept[index] = value[index]
                value = kept
            views.store(value)
            fill_padding(views, operand.padding, poison)

        return store

    def rows(self, operand: Operand, dims: Sequence[int]) -> torch.Tensor | None:
        """Returns a view of an operand with its last dimension as (sticks, lanes), including padding.

        It lets an op that selects along ``dims`` copy only the selected rows. None if the sticks are not
        along the last dimension, or if ``dims`` has that dimension or a negative one.
        """
        layout = operand.layout
        rank = len(layout.size)
        if rank < 2 or layout.stick_dim != rank - 1 or any(not 0 <= d < rank - 1 for d in dims):
            return None
        outer = [layout.stride_of(d)[0] for d in range(rank - 1)]
        size = (*layout.size[:-1], layout.sticks, layout.lanes)
        strides = (*outer, *layout.stride_of(rank - 1))
        address = self.base + operand.address
        return self.memory.typed(address, layout.number.torch_dtype, size, strides)

    def stick_view(self, operand: Operand) -> torch.Tensor:
        """Returns an operand's device tensor, including padding."""
        layout = operand.layout
        return self.memory.typed(
            self.base + operand.address, layout.number.torch_dtype, layout.device_size, layout.device_strides
        )


def wide(layout: Layout) -> torch.dtype:
    """Returns the compute dtype of the matrix and sliding-window units: fp32 for halves."""
    return accumulator(layout.number.torch_dtype)


def number(value: Any) -> Any:
    """Decodes a number of a spec, where infinities and NaN are strings."""
    return float(value) if isinstance(value, str) else value


def from_rows(value: torch.Tensor, valid: int) -> torch.Tensor:
    """Returns the logical tensor of a result whose last dimensions are (sticks, lanes)."""
    return value.flatten(-2)[..., :valid]


def logical_plan(context: Context, function: Callable[..., Any], loads: Sequence[Load]) -> list[Call]:
    """Returns the plan of a unit on logical tensors: load all inputs, compute, store all outputs."""
    stores = [context.store(operand) for operand in context.spec.outputs]

    def one() -> None:
        stores[0](function(*(load() for load in loads)))

    def several() -> None:
        for store, value in zip(stores, function(*(load() for load in loads)), strict=False):
            store(value)

    return [one if len(stores) == 1 else several]
