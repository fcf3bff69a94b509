"""Lowerings of data movement; operators that only permute or insert axes emit no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from accel_lab.mock.ir.loop_ir import View

from .builder import Builder, Unsupported, lowers
from .formats import Number, number_for

Ints = Sequence[int]


@lowers(
    "aten.view.default", "aten._unsafe_view", "aten.reshape", "aten.view_copy.default", "aten._reshape_copy"
)
def _view(build: Builder, out: torch.Tensor, x: View, size: Ints) -> View:
    return build.reshape(x, tuple(out.shape))


@lowers("aten.permute")
def _permute(build: Builder, out: torch.Tensor, x: View, dims: Ints) -> View:
    return x.permuted([dim % len(x.size) for dim in dims])


@lowers("aten.t", "aten.numpy_T")
def _t(build: Builder, out: torch.Tensor, x: View) -> View:
    return x.permuted(range(len(x.size))[::-1])


@lowers("aten.transpose.int")
def _transpose(build: Builder, out: torch.Tensor, x: View, one: int, other: int) -> View:
    order = list(range(len(x.size)))
    if order:
        order[one], order[other] = order[other], order[one]
    return x.permuted(order)


@lowers("aten.expand")
def _expand(build: Builder, out: torch.Tensor, x: View, size: Ints, *, implicit: bool = False) -> View:
    return x.expanded(tuple(out.shape))


@lowers("aten.unsqueeze")
def _unsqueeze(build: Builder, out: torch.Tensor, x: View, dim: int) -> View:
    dim %= len(x.size) + 1
    return View(
        buffer=x.buffer,
        dims=(*x.dims[:dim], None, *x.dims[dim:]),
        size=(*x.size[:dim], 1, *x.size[dim:]),
    )


@lowers("aten.squeeze")
def _squeeze(build: Builder, out: torch.Tensor, x: View, dims: Ints | int | None = None) -> View:
    rank = len(x.size)
    asked = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {dim % rank for dim in asked if rank and x.size[dim % rank] == 1}
    kept = [axis for axis in range(rank) if axis not in gone]
    return x.permuted(kept)


def _bounds(extent: int, start: int | None, end: int | None) -> tuple[int, int]:
    first, last, _ = slice(start, end, 1).indices(extent)
    return first, max(first, last)


@lowers("aten.slice.Tensor")
def _slice(
    build: Builder,
    out: torch.Tensor,
    x: View,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> View:
    dim %= len(x.size)
    first, last = _bounds(x.size[dim], start, end)
    return build.slice(x, dim, first, last, step)


@lowers("aten.select.int")
def _select(build: Builder, out: torch.Tensor, x: View, dim: int, index: int) -> View:
    dim %= len(x.size)
    rest = [axis for axis in range(len(x.size)) if axis != dim]
    if x.size[dim] == 1 or x.dims[dim] is None:
        return x.permuted(rest)
    attributes = {"dim": dim, "index": index % x.size[dim]}
    return build.unit("movement", "select", {"input": x}, out.shape, out.dtype, attributes)


@lowers("aten.split.Tensor")
def _split(build: Builder, out: Any, x: View, size: int, dim: int = 0) -> list[View]:
    dim %= len(x.size)
    return _pieces(build, x, [min(size, x.size[dim] - at) for at in range(0, x.size[dim], size)], dim)


@lowers("aten.split_with_sizes")
def _split_with_sizes(build: Builder, out: Any, x: View, sizes: Ints, dim: int = 0) -> list[View]:
    return _pieces(build, x, sizes, dim % len(x.size))


def _pieces(build: Builder, x: View, sizes: Ints, dim: int) -> list[View]:
    made, start = [], 0
    for extent in sizes:
        made.append(build.slice(x, dim, start, start + extent))
        start += extent
    return made


@lowers("aten.unbind.int")
def _unbind(build: Builder, out: Any, x: View, dim: int = 0) -> list[View]:
    return [_select(build, entry, x, dim, number) for number, entry in enumerate(out)]


@lowers("aten.cat")
def _cat(build: Builder, out: torch.Tensor, tensors: Sequence[View], dim: int = 0) -> View:
    # torch accepts an empty 1-d tensor among tensors of any rank.
    parts = [build.cast(view, out.dtype) for view in tensors if 0 not in view.size]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return build.full(out.shape, 0, out.dtype)
    reads = {f"input{number}": view for number, view in enumerate(parts)}
    return build.unit("movement", "cat", reads, out.shape, out.dtype, {"dim": dim % out.dim()})


@lowers("aten.constant_pad_nd")
def _constant_pad(build: Builder, out: torch.Tensor, x: View, pad: Ints, value: Number = 0) -> View:
    if not any(pad):
        return x
    if 0 in x.size:
        return build.full(out.shape, value, out.dtype)
    attributes = {"pad": list(pad), "value": number_for(value, out.dtype)}
    return build.unit("movement", "constant_pad", {"input": x}, out.shape, out.dtype, attributes)


@lowers("aten.flip")
def _flip(build: Builder, out: torch.Tensor, x: View, dims: Ints) -> View:
    axes = [dim % len(x.size) for dim in dims] if x.size else []
    axes = [axis for axis in axes if x.size[axis] > 1]
    if not axes:
        return x
    return build.unit("movement", "flip", {"input": x}, out.shape, out.dtype, {"dims": axes})


@lowers("aten.slice_scatter")
def _slice_scatter(
    build: Builder,
    out: torch.Tensor,
    x: View,
    source: View,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> View:
    dim %= len(x.size)
    first, last = _bounds(x.size[dim], start, end)
    source = build.cast(source, out.dtype)
    if 0 in source.size:
        return x
    if source.size == x.size and step == 1:
        return source
    attributes = {"dim": dim, "start": first, "end": last, "step": step}
    reads = {"input": x, "source": source}
    return build.unit("movement", "slice_scatter", reads, out.shape, out.dtype, attributes)


@lowers("aten.select_scatter")
def _select_scatter(build: Builder, out: torch.Tensor, x: View, source: View, dim: int, index: int) -> View:
    dim %= len(x.size)
    attributes = {"dim": dim, "index": index % x.size[dim]}
    reads = {"input": x, "source": build.cast(source, out.dtype)}
    return build.unit("movement", "select_scatter", reads, out.shape, out.dtype, attributes)


@lowers("aten.repeat")
def _repeat(build: Builder, out: torch.Tensor, x: View, repeats: Ints) -> View:
    if all(number == 1 for number in repeats):
        return build.reshape(x, tuple(out.shape))
    return build.unit("movement", "repeat", {"input": x}, out.shape, out.dtype, {"repeats": list(repeats)})


@lowers("aten.roll")
def _roll(build: Builder, out: torch.Tensor, x: View, shifts: Ints, dims: Ints = ()) -> View:
    attributes = {"shifts": list(shifts), "dims": [dim % len(x.size) for dim in dims]}
    return build.unit("movement", "roll", {"input": x}, out.shape, out.dtype, attributes)


@lowers("aten.diagonal")
def _diagonal(
    build: Builder, out: torch.Tensor, x: View, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> View:
    attributes = {"offset": offset, "dim1": dim1 % len(x.size), "dim2": dim2 % len(x.size)}
    return build.unit("movement", "diagonal", {"input": x}, out.shape, out.dtype, attributes)


@lowers("aten.unfold")
def _unfold(build: Builder, out: torch.Tensor, x: View, dim: int, size: int, step: int) -> View:
    if not x.size:
        raise Unsupported("unfold of a tensor without dimensions")
    attributes = {"dim": dim % len(x.size), "size": size, "step": step}
    return build.unit("movement", "unfold", {"input": x}, out.shape, out.dtype, attributes)


def _triangle(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View, diagonal: int = 0) -> View:
        return build.unit("movement", op, {"input": x}, out.shape, out.dtype, {"diagonal": diagonal})


_triangle("tril")
_triangle("triu")


@lowers("aten.as_strided")
def _as_strided(
    build: Builder, out: torch.Tensor, x: View, size: Ints, stride: Ints, offset: int | None = None
) -> View:
    """Lowers as_strided of a tensor that is dense in some dimension order.

    The unit reads elements in row-major order, torch in memory order. They agree if the operand is permuted
    to that dimension order.
    """
    if not build.input_whole:
        raise Unsupported("as_strided of a part of a tensor")
    strides = build.input_strides
    order = sorted(range(len(x.size)), key=lambda axis: (-strides[axis], -x.size[axis]))
    step = 1
    for axis in reversed(order):
        if x.size[axis] != 1 and strides[axis] != step:
            raise Unsupported("as_strided of a tensor that is not dense")
        step *= x.size[axis]
    attributes = {"size": list(size), "stride": list(stride), "offset": offset or 0}
    return build.unit(
        "movement", "as_strided", {"input": x.permuted(order)}, out.shape, out.dtype, attributes
    )
