"""The movement unit: kernels that only move elements, on logical tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .context import Call, Context, from_rows, logical_plan, number

Attributes = dict[str, Any]
Move = Callable[..., torch.Tensor]
#: Movements that copy whole rows of sticks if the sticks are along the last dimension.
ROW_OPS = ("slice", "select")


def movement_plan(context: Context) -> list[Call]:
    """Returns the plan of a movement kernel; the store casts to the output's format. Raises SpecError."""
    make = MOVEMENTS.get(context.spec.op)
    if make is None:
        raise context.refuse("vocabulary", f"no movement is called {context.spec.op!r}")
    inputs, function = context.spec.inputs, make(context.spec.attributes)
    rows = context.rows(inputs[0], [context.attribute("dim", 0)]) if context.spec.op in ROW_OPS else None
    if rows is None:
        return logical_plan(context, function, [context.load(operand) for operand in inputs])
    table, valid = rows, inputs[0].layout.valid
    return logical_plan(context, lambda: from_rows(function(table), valid), [])


def _copy(a: Attributes) -> Move:
    return lambda x: x


def _view(a: Attributes) -> Move:
    size = list(a["size"])
    return lambda x: x.reshape(size)


def _permute(a: Attributes) -> Move:
    dims = list(a["dims"])
    return lambda x: x.permute(dims)


def _slice(a: Attributes) -> Move:
    dim, start, end, step = a.get("dim", 0), a.get("start"), a.get("end"), a.get("step", 1)
    return lambda x: torch.ops.aten.slice.Tensor(x, dim, start, end, step)


def _expand(a: Attributes) -> Move:
    size = list(a["size"])
    return lambda x: x.expand(size)


def _cat(a: Attributes) -> Move:
    dim = a.get("dim", 0)
    return lambda *parts: torch.cat(parts, dim)


def _constant_pad(a: Attributes) -> Move:
    pad, value = list(a["pad"]), number(a.get("value", 0))
    return lambda x: torch.ops.aten.constant_pad_nd.default(x, pad, value)


def _flip(a: Attributes) -> Move:
    dims = list(a["dims"])
    return lambda x: x.flip(dims)


def _select(a: Attributes) -> Move:
    dim, index = a["dim"], a["index"]
    return lambda x: x.select(dim, index)


def _slice_scatter(a: Attributes) -> Move:
    dim, start, end, step = a.get("dim", 0), a.get("start"), a.get("end"), a.get("step", 1)

    def move(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        result = _own(x)
        torch.ops.aten.slice.Tensor(result, dim, start, end, step).copy_(source)
        return result

    return move


def _select_scatter(a: Attributes) -> Move:
    dim, index = a["dim"], a["index"]

    def move(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        result = _own(x)
        result.select(dim, index).copy_(source)
        return result

    return move


def _own(x: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor only: torch's ``slice_scatter`` would copy its storage, all of device memory."""
    return x.clone(memory_format=torch.contiguous_format)


def _repeat(a: Attributes) -> Move:
    repeats = list(a["repeats"])
    return lambda x: x.repeat(repeats)


def _roll(a: Attributes) -> Move:
    shifts, dims = list(a["shifts"]), list(a.get("dims", ()))
    return lambda x: torch.ops.aten.roll.default(x, shifts, dims)


def _diagonal(a: Attributes) -> Move:
    offset, one, other = a.get("offset", 0), a.get("dim1", 0), a.get("dim2", 1)
    return lambda x: x.diagonal(offset, one, other)


def _unfold(a: Attributes) -> Move:
    dim, size, step = a["dim"], a["size"], a["step"]
    return lambda x: x.unfold(dim, size, step)


def _as_strided(a: Attributes) -> Move:
    size, strides, offset = list(a["size"]), list(a["stride"]), a.get("offset") or 0

    def move(x: torch.Tensor) -> torch.Tensor:
        dense = x.contiguous()  # may be a view of the device's memory with a storage offset
        return dense.as_strided(size, strides, dense.storage_offset() + offset)

    return move


def _tril(a: Attributes) -> Move:
    diagonal = a.get("diagonal", 0)
    return lambda x: torch.tril(x, diagonal)


def _triu(a: Attributes) -> Move:
    diagonal = a.get("diagonal", 0)
    return lambda x: torch.triu(x, diagonal)


MOVEMENTS: dict[str, Callable[[Attributes], Move]] = {
    "view": _view,
    "permute": _permute,
    "restickify": _copy,
    "copy": _copy,
    "slice": _slice,
    "expand": _expand,
    "cat": _cat,
    "constant_pad": _constant_pad,
    "flip": _flip,
    "select": _select,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "repeat": _repeat,
    "roll": _roll,
    "diagonal": _diagonal,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "tril": _tril,
    "triu": _triu,
}
