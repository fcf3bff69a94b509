"""The vector unit: fused statements on strided operands; one call runs a statement on all cores.

If all operands are in main memory, the slices of all cores are one strided view. If some are in scratchpads,
a dimension is viewed as (cores, slice of one core), and the stride between cores is the distance of their
scratchpads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import torch

from accel_lab.mock.faults import active
from accel_lab.mock.spec.kernel_spec import Dim, Operand, Statement

from .context import Call, Context, covered, number, slice_of
from .statements import Value, copy_calls, function_of, write_calls

Step = tuple[int, ...]


class VectorUnit:
    """Provides a pointwise or reduction kernel's operands as views and its statements as calls."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.space = context.spec.space
        self.operands = {operand.name: operand for operand in context.spec.operands}
        self.tiled = any(operand.memory == "scratchpad" for operand in context.spec.operands)

    def steps(self) -> Iterator[Step]:
        """Returns the sequential steps, each as its step number in each dimension."""
        if not all(covered(dim) for dim in self.space):
            return iter(())
        if not self.tiled:
            return iter([(0,) * len(self.space)])
        return itertools.product(*(range(dim.steps) for dim in self.space))

    @cached_property
    def axes(self) -> list[list[int]]:
        """The axes of the views for each dimension of the space: one, or (cores, slice)."""
        axes, count = [], 0
        for dim in self.space:
            width = 2 if self.tiled and dim.cores > 1 else 1
            axes.append(list(range(count, count + width)))
            count += width
        return axes

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The size of every view."""
        size: list[int] = []
        for dim in self.space:
            if not self.tiled:
                size.append(covered(dim))
            elif dim.cores > 1:
                size += [dim.cores, slice_of(dim)]
            else:
                size.append(slice_of(dim))
        return tuple(size)

    @cached_property
    def core_steps(self) -> list[int]:
        """The core-number stride between adjacent slices, by dimension; the first varies slowest."""
        distances, product = [], 1
        for dim in reversed(self.space):
            distances.append(product)
            product *= dim.cores
        return distances[::-1]

    def view(self, operand: Operand, step: Step) -> torch.Tensor:
        """Returns the view of an operand for all cores in one step."""
        layout = operand.layout
        word = layout.number.word_bytes
        local = operand.memory == "scratchpad"
        strides: list[int] = []
        address = operand.address if local else self.context.base + operand.address
        between = self.context.device.scratchpad_bytes // word
        for dim, stride, distance, at in zip(self.space, operand.strides, self.core_steps, step, strict=True):
            rest = slice_of(dim)
            if self.tiled and dim.cores > 1:
                strides.append(distance * between if local else dim.steps * rest * stride)
            strides.append(stride)
            if not local:
                address += at * rest * stride * word
        region = self.context.scratchpads if local else self.context.memory
        return region.typed(address, layout.number.torch_dtype, self.shape, strides)

    def coordinate(self, number_of_dim: int, step: Step) -> torch.Tensor:
        """Returns the index along one dimension of the space, broadcastable over the views."""
        dim = self.space[number_of_dim]
        size = [1] * len(self.shape)
        for axis in self.axes[number_of_dim]:
            size[axis] = self.shape[axis]
        if not self.tiled:
            return torch.arange(covered(dim), device="cpu").view(size)
        rest = slice_of(dim)
        cores = torch.arange(dim.cores, device="cpu").unsqueeze(1) * dim.steps * rest
        return (cores + step[number_of_dim] * rest + torch.arange(rest, device="cpu")).view(size)

    def logical_index(self, number_of_dim: int, step: Step) -> torch.Tensor:
        """Returns the logical index of a dimension of the space.

        For ``sticks`` it is stick x lanes + lane, with several ``lanes`` dimensions counted as one.
        """
        index = self.coordinate(number_of_dim, step)
        if self.space[number_of_dim].kind == "sticks":
            for position, dim in enumerate(self.space):
                if dim.kind == "lanes":
                    index = index * dim.extent + self.coordinate(position, step)
        return index

    def value(self, name: Any, step: Step) -> Value:
        """Returns a statement's input, a view or a number."""
        operand = self.operands.get(name) if isinstance(name, str) else None
        return self.view(operand, step) if operand is not None else number(name)

    def calls(self, statement: Statement, step: Step) -> list[Call]:
        """Returns the calls of one elementwise statement in one step. Raises SpecError."""
        out = self.view(self.operands[statement.output], step)
        inputs = [self.value(name, step) for name in statement.inputs]
        still = [axis for axis, n in enumerate(out.shape) if n > 1 and out.stride(axis) == 0]
        out = _first(out, still)
        inputs = [_first(value, still) for value in inputs]
        if statement.op in ("copy", "cast"):
            return copy_calls(inputs[0], out)
        if statement.op == "index":
            index = self.logical_index(statement.attributes["dim"], step).expand(self.shape)
            return [partial(out.copy_, _first(index, still))]
        if statement.op == "mask_tail":
            return copy_calls(inputs[0], out) + self._mask(statement, out, step)
        if statement.op in ("eq", "ne") and active("negative_zero_bits"):
            inputs = _as_bits(inputs)
        function = function_of(statement.op, statement.attributes)
        if function is None:
            raise self.context.refuse("vocabulary", f"no statement is called {statement.op!r}")
        calls = write_calls(function, inputs, out)
        if statement.op == "exp" and active("exp_tail_wrong"):
            calls += self._wrong_table(out, step)
        return calls

    def last_stick(self, out: torch.Tensor, sticks: int, step: Step) -> torch.Tensor | None:
        """Returns the last stick of a view along a dimension; None if it is in another step."""
        dim = self.space[sticks]
        if self.tiled and step[sticks] != dim.steps - 1:
            return None
        for axis in self.axes[sticks]:
            out = out.narrow(axis, out.shape[axis] - 1, 1)
        return out

    def _mask(self, statement: Statement, out: torch.Tensor, step: Step) -> list[Call]:
        """Calls that fill the lanes beyond the last element with the constant."""
        sticks, valid = statement.attributes["dim"], statement.attributes["valid"]
        constant = number(statement.attributes["value"])
        lanes = [position for position, dim in enumerate(self.space) if dim.kind == "lanes"]
        extent, width = (
            self.space[sticks].extent,
            math.prod(self.space[position].extent for position in lanes),
        )
        if valid >= extent * width:
            return []
        simple = len(lanes) == 1 and self.space[lanes[0]].cores == self.space[lanes[0]].steps == 1
        if simple and (extent - 1) * width < valid and covered(self.space[sticks]) == extent:
            last = self.last_stick(out, sticks, step)
            if last is None:
                return []
            rest = valid - (extent - 1) * width
            return [partial(last.narrow(self.axes[lanes[0]][0], rest, width - rest).fill_, constant)]
        beyond = self.logical_index(sticks, step) >= valid
        return [partial(out.masked_fill_, beyond, constant)]

    def _wrong_table(self, out: torch.Tensor, step: Step) -> list[Call]:
        """Fault exp_tail_wrong: multiplies a partly filled last stick by 1.125."""
        if not self.context.spec.outputs[0].layout.padding:
            return []
        sticks = [position for position, dim in enumerate(self.space) if dim.kind == "sticks"]
        last = self.last_stick(out, sticks[-1], step) if sticks else None
        return [] if last is None else [partial(last.mul_, 1.125)]


def pointwise_plan(context: Context) -> list[Call]:
    """Returns the plan of a pointwise kernel."""
    unit = VectorUnit(context)
    return [
        call
        for step in unit.steps()
        for statement in context.spec.body
        for call in unit.calls(statement, step)
    ]


def reduced_dims(space: tuple[Dim, ...]) -> list[int]:
    """Returns the positions of the reduced dimensions."""
    return [position for position, dim in enumerate(space) if dim.reduced]


def _first(value: Any, axes: list[int]) -> Any:
    """A view narrowed to index 0 along some axes; numbers are returned unchanged."""
    if isinstance(value, torch.Tensor):
        for axis in axes:
            value = value.narrow(axis, 0, 1)
    return value


def _as_bits(inputs: list[Value]) -> list[Value]:
    """Fault negative_zero_bits: views floats as integers of the same bits."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    dtype = tensors[0].dtype if tensors else torch.bool
    if not dtype.is_floating_point or any(value.dtype != dtype for value in tensors):
        return inputs
    bits = torch.int32 if dtype.itemsize == 4 else torch.int16
    return [
        value.view(bits)
        if isinstance(value, torch.Tensor)
        else torch.tensor(value, dtype=dtype, device="cpu").view(bits)
        for value in inputs
    ]
