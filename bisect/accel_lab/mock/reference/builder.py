"""Builds the reference front end's program: a row-major buffer for each tensor, one statement per kernel.

It optimizes nothing: no fusion, no scratchpad, no memory plan. This makes it an independent check of the main
front end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from accel_lab.mock.device import FORMATS, STICK_BYTES, Device
from accel_lab.mock.ir.layout import Layout, row_major
from accel_lab.mock.ir.neutral import NEUTRAL
from accel_lab.mock.ir.program import Buffer, Kernel, Step
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Operand, Statement

from .spaces import broadcast_strides, device_space, logical_space


class NotNative(Exception):
    """Raised if the front end has no kernels for an operator or its arguments; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """A tensor in its own buffer.

    ``host`` or ``index`` name the same tensor's host value or graph input, if any; a host call uses that
    instead of reading the device.
    """

    name: str
    layout: Layout
    address: int
    padding: str = "undefined"
    host: str | None = None
    index: int | None = None

    @property
    def size(self) -> tuple[int, ...]:
        """The logical size."""
        return self.layout.size

    @property
    def format(self) -> str:
        """The number format's name."""
        return self.layout.format

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype of the format."""
        return self.layout.number.torch_dtype

    @property
    def elements(self) -> int:
        """The number of logical elements."""
        return math.prod(self.size)


Number = float | int | bool
Input = Value | Number


def encoded(number: Number) -> float | int | bool | str:
    """Returns a number for a JSON spec: infinities and NaN become strings."""
    if isinstance(number, float) and not math.isfinite(number):
        return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")
    return number


def extreme_of(padding: str, format_name: str) -> Number:
    """Returns the number of a padding state in a format."""
    dtype = FORMATS[format_name].torch_dtype
    if padding in ("zero", "one"):
        return int(padding == "one")
    high = padding == "highest"
    if dtype == torch.bool:
        return high
    if dtype.is_floating_point:
        return math.inf if high else -math.inf
    info = torch.iinfo(dtype)
    return int(info.max if high else info.min)


class Builder:
    """Collects buffers and steps. ``origin`` and ``source`` belong to the node being lowered."""

    def __init__(self, device: Device, resident_bytes: int) -> None:
        self.device = device
        self.buffers: dict[str, Buffer] = {}
        self.steps: list[Step] = []
        self.origin = ""
        self.source = ""
        self.arena_bytes = resident_bytes
        self._kernels = 0

    def state(self) -> tuple[int, dict[str, Buffer], int, int]:
        """Returns a snapshot for :meth:`restore`."""
        return len(self.steps), dict(self.buffers), self.arena_bytes, self._kernels

    def restore(self, state: tuple[int, dict[str, Buffer], int, int]) -> None:
        """Discards everything built since the snapshot."""
        count, self.buffers, self.arena_bytes, self._kernels = state
        del self.steps[count:]

    def place(
        self,
        size: Sequence[int],
        format_name: str,
        *,
        name: str | None = None,
        address: int | None = None,
        padding: str = "undefined",
    ) -> Value:
        """Creates a buffer, by default at the end of the arena."""
        layout = row_major(tuple(size), format_name)
        if address is None:
            address = self.arena_bytes
            self.arena_bytes += max(layout.bytes, STICK_BYTES)
        base = name or self.origin
        unique, number = base, 0
        while unique in self.buffers:
            number += 1
            unique = f"{base}_{number}"
        self.buffers[unique] = Buffer(name=unique, layout=layout, address=address)
        return Value(name=unique, layout=layout, address=address, padding=padding)

    def emit(
        self,
        unit: str,
        op: str,
        space: Sequence[Dim],
        operands: Sequence[Operand],
        body: Sequence[Statement] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Appends one kernel."""
        self.steps.append(
            Kernel(
                spec=KernelSpec(
                    name=f"k{self._kernels}_{op}",
                    unit=unit,
                    op=op,
                    space=self._divided(space, operands),
                    operands=tuple(operands),
                    body=tuple(body),
                    attributes=dict(attributes or {}),
                    origins=(self.origin,),
                    source=self.source,
                )
            )
        )
        self._kernels += 1

    def _divided(self, space: Sequence[Dim], operands: Sequence[Operand]) -> tuple[Dim, ...]:
        """Keeps the space on one core, unless the operands exceed the span that one core can address."""
        total = sum(operand.layout.bytes for operand in operands)
        least = -(-total // self.device.span_bytes)
        dims = list(space)
        if least <= 1:
            return tuple(dims)
        for position, dim in enumerate(dims):
            if dim.reduced or dim.kind == "lanes":
                continue
            fitting = [n for n in range(least, self.device.cores + 1) if dim.extent % n == 0]
            if fitting:
                dims[position] = replace(dim, cores=fitting[0])
                break
        return tuple(dims)

    # ---- pointwise ---------------------------------------------------------------------------------------

    def pointwise(
        self,
        op: str,
        inputs: Sequence[Input],
        size: Sequence[int],
        format_name: str,
        *,
        attributes: Mapping[str, Any] | None = None,
        padding: str = "undefined",
    ) -> Value:
        """Emits a one-statement kernel over operands broadcast to ``size``; all need the same lane count."""
        output = self.place(size, format_name, padding=padding)
        operands, names = [], []
        for number, value in enumerate(inputs):
            if isinstance(value, Value):
                name = f"in{number}"
                operands.append(
                    operand(name, "input", value, strides=broadcast_strides(value.layout, output.layout))
                )
                names.append(name)
            else:
                names.append(encoded(value))  # type: ignore[arg-type]
        operands.append(operand("out", "output", output, strides=output.layout.device_strides))
        statement = Statement(op=op, inputs=tuple(names), output="out", attributes=dict(attributes or {}))
        self.emit("pointwise", op, device_space(output.layout), operands, (statement,))
        return output

    def masked(self, value: Value, padding: str) -> Value:
        """Returns the tensor with its padding lanes set to the constant of a padding state."""
        if value.layout.padding == 0 or value.padding == padding:
            return replace(value, padding=padding)
        attributes = {
            "value": encoded(extreme_of(padding, value.format)),
            "dim": max(len(value.layout.device_size) - 3, 0),
            "valid": value.layout.valid,
        }
        return self.pointwise(
            "mask_tail", (value,), value.size, value.format, attributes=attributes, padding=padding
        )

    # ---- by-layout units ---------------------------------------------------------------------------------

    def apply(
        self,
        unit: str,
        op: str,
        inputs: Mapping[str, Value],
        outputs: Mapping[str, tuple[Sequence[int], str]],
        attributes: Mapping[str, Any] | None = None,
        space: Sequence[Dim] | None = None,
    ) -> tuple[Value, ...]:
        """Emits a kernel of a by-layout unit; ``outputs`` gives size and format by name."""
        made = {name: self.place(size, fmt) for name, (size, fmt) in outputs.items()}
        operands = [operand(name, "input", value) for name, value in inputs.items()]
        operands += [operand(name, "output", value) for name, value in made.items()]
        first = next(iter(made.values()))
        self.emit(unit, op, logical_space(first.size) if space is None else space, operands, (), attributes)
        return tuple(made.values())

    def move(
        self, op: str, value: Value, size: Sequence[int], attributes: Mapping[str, Any] | None = None
    ) -> Value:
        """Emits a movement kernel of one tensor, which keeps its format."""
        return self.apply("movement", op, {"input": value}, {"output": (size, value.format)}, attributes)[0]

    def convert(self, value: Value, format_name: str) -> Value:
        """Returns the tensor in another number format; itself if it already has it."""
        if value.format == format_name:
            return value
        outputs = {"output": (value.size, format_name)}
        return self.apply("movement", "copy", {"input": value}, outputs)[0]

    def view(self, value: Value, size: Sequence[int]) -> Value:
        """Returns the tensor reshaped to ``size``; itself if the size is the same."""
        if tuple(size) == value.size:
            return value
        return self.move("view", value, size, {"size": list(size)})

    def full(self, size: Sequence[int], format_name: str, number: Number) -> Value:
        """Emits a tensor filled with one number."""
        attributes = {"value": encoded(number)}
        return self.apply("fill", "full", {}, {"output": (size, format_name)}, attributes)[0]

    # ---- reductions and the matrix unit ------------------------------------------------------------------

    def reduce(self, op: str, value: Value, dims: Sequence[int], format_name: str) -> Value:
        """Emits a reduction that keeps the reduced dimensions with extent 1.

        Both formats must have the same number of lanes unless the last dimension is reduced.
        """
        last = len(value.size) - 1
        if last in dims:
            value = self.masked(value, NEUTRAL[op])
        output = self.place([1 if d in dims else n for d, n in enumerate(value.size)], format_name)
        space = [
            replace(dim, reduced=logical in dims)
            for dim, logical in zip(device_space(value.layout), value.layout.dim_map, strict=True)
        ]
        strides = broadcast_strides(output.layout, value.layout)
        strides = tuple(0 if dim.reduced else step for dim, step in zip(space, strides, strict=True))
        operands = (
            operand("in0", "input", value, strides=value.layout.device_strides),
            operand("out", "output", output, strides=strides),
        )
        attributes = {"dims": sorted(dims)}
        statement = Statement(op=op, inputs=("in0",), output="out")
        self.emit("reduction", op, space, operands, (statement,), attributes)
        return output

    def matmul(self, left: Value, right: Value, result: str | None = None) -> Value:
        """Emits (batch..., m, k) x (batch..., k, n), equal batches, in format ``result`` or the operands'."""
        *batch, m, k = left.size
        n = right.size[-1]
        left = self.masked(left, "zero")
        space = [Dim(name=f"b{d}", extent=extent) for d, extent in enumerate(batch)]
        space += [
            Dim(name="m", extent=m),
            Dim(name="n", extent=n),
            Dim(name="k", extent=k, reduced=True),
        ]
        inputs = {"left": left, "right": right}
        outputs = {"output": ((*batch, m, n), result or left.format)}
        return self.apply("matmul", "matmul", inputs, outputs, space=space)[0]


def operand(name: str, role: str, value: Value, strides: Sequence[int] = ()) -> Operand:
    """Returns a value as a kernel's operand in main memory."""
    return Operand(
        name=name,
        role=role,
        memory="hbm",
        address=value.address,
        layout=value.layout,
        strides=tuple(strides),
        padding=value.padding,
    )
