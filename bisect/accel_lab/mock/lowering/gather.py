"""Lowerings of operators with index tensors: gathers, embeddings, scatters."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from accel_lab.mock.ir.loop_ir import View

from .builder import Builder, Unsupported, lowers
from .formats import Number


def _index(build: Builder, view: View) -> View:
    if build.dtype(view) not in (torch.int64, torch.int32):
        raise Unsupported(f"an index of {str(build.dtype(view)).removeprefix('torch.')}")
    return view


@lowers("aten.gather")
def _gather(
    build: Builder, out: torch.Tensor, x: View, dim: int, index: View, *, sparse_grad: bool = False
) -> View:
    if not x.size or not index.size:
        raise Unsupported("a gather of a tensor without dimensions")
    reads = {"input": x, "index": _index(build, index)}
    return build.unit("gather", "gather", reads, out.shape, out.dtype, {"dim": dim % len(x.size)})


@lowers("aten.index_select")
def _index_select(build: Builder, out: torch.Tensor, x: View, dim: int, index: View) -> View:
    if not x.size or not index.size:
        raise Unsupported("index_select of a tensor without dimensions")
    reads = {"input": x, "index": _index(build, index)}
    return build.unit("gather", "index_select", reads, out.shape, out.dtype, {"dim": dim % len(x.size)})


@lowers("aten.embedding")
def _embedding(
    build: Builder,
    out: torch.Tensor,
    weight: View,
    index: View,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> View:
    reads = {"weight": weight, "index": _index(build, index)}
    attributes = {"padding_idx": padding_idx}
    return build.unit("gather", "embedding", reads, out.shape, out.dtype, attributes)


@lowers("aten.embedding_dense_backward")
def _embedding_backward(
    build: Builder,
    out: torch.Tensor,
    gradient: View,
    index: View,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> View:
    if scale_grad_by_freq:
        raise Unsupported("gradients of an embedding scaled by frequency")
    if 0 in gradient.size:
        return build.full(out.shape, 0, out.dtype)
    reads = {"grad_output": gradient, "index": _index(build, index)}
    attributes = {"num_weights": num_weights, "padding_idx": padding_idx}
    return build.unit("scatter", "embedding_backward", reads, out.shape, out.dtype, attributes)


def _index_operands(build: Builder, indices: Sequence[View | None]) -> tuple[dict[str, View], list[int]]:
    dims = [dim for dim, view in enumerate(indices) if view is not None]
    views = [view for view in indices if view is not None]
    return {f"index{number}": _index(build, view) for number, view in enumerate(views)}, dims


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index_tensor(build: Builder, out: torch.Tensor, x: View, indices: Sequence[View | None]) -> View:
    operands, dims = _index_operands(build, indices)
    if not dims:
        return x
    return build.unit("gather", "index", {"input": x, **operands}, out.shape, out.dtype, {"dims": dims})


@lowers("aten.index_put", "aten._unsafe_index_put")
def _index_put(
    build: Builder,
    out: torch.Tensor,
    x: View,
    indices: Sequence[View | None],
    values: View,
    accumulate: bool = False,
) -> View:
    masks = [view for view in indices if view is not None and build.dtype(view) == torch.bool]
    if masks:
        if len(indices) != 1 or accumulate or values.size not in ((), (1,)):
            raise Unsupported("an assignment through a mask whose count depends on data")
        mask = masks[0]
        missing = len(x.size) - len(mask.size)
        mask = build.reshape(mask, (*mask.size, *(1,) * missing))
        value = build.cast(build.reshape(values, ()), out.dtype)
        return build.pointwise("where", [mask, value, x], out.dtype, size=out.shape)
    operands, dims = _index_operands(build, indices)
    if not dims:
        raise Unsupported("an assignment without an index")
    if 0 in values.size or any(0 in view.size for view in operands.values()):
        return x
    reads = {"input": x, **operands, "values": build.cast(values, out.dtype)}
    attributes = {"dims": dims, "accumulate": accumulate}
    return build.unit("scatter", "index_put", reads, out.shape, out.dtype, attributes)


def _scatter(op: str, name: str) -> None:
    @lowers(name)
    def lower(build: Builder, out: torch.Tensor, x: View, dim: int, index: View, source: View) -> View:
        return scatter(build, op, x, dim, index, source)


_scatter("scatter", "aten.scatter.src")
_scatter("scatter_add", "aten.scatter_add")


@lowers("aten.scatter.value")
def _scatter_value(build: Builder, out: torch.Tensor, x: View, dim: int, index: View, value: Number) -> View:
    source = build.full(index.size, value, out.dtype)
    return scatter(build, "scatter", x, dim, index, source)


def scatter(build: Builder, op: str, x: View, dim: int, index: View, source: View) -> View:
    """Emits ``x`` with the elements of ``source`` stored, or added, at ``index``. Raises Unsupported."""
    if not x.size or not index.size:
        raise Unsupported("a scatter into a tensor without dimensions")
    if 0 in index.size:
        return x
    reads = {"input": x, "index": _index(build, index), "source": build.cast(source, build.dtype(x))}
    return build.unit("scatter", op, reads, x.size, build.dtype(x), {"dim": dim % len(x.size)})
