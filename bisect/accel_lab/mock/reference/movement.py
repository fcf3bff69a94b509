"""Rules of the reference front end for data movement: views, copies, fills, gathers and scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .builder import Builder, NotNative, Value, encoded
from .pointwise import elementwise
from .reduction import permuted
from .rules import format_name, normal, rule


@rule("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", empty=True)
@rule("aten.unsqueeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default")
def _view(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return b.view(a["self"], tuple(out.shape))


@rule("aten.permute.default")
def _permute(b: Builder, a: dict[str, Any], out: Any) -> Value:
    rank = len(a["self"].size)
    return permuted(b, a["self"], [normal(d, rank) for d in a["dims"]])


@rule("aten.transpose.int", "aten.t.default")
def _transpose(b: Builder, a: dict[str, Any], out: Any) -> Value:
    rank = len(a["self"].size)
    dims = list(range(rank))
    if rank > 1:
        one, other = normal(a.get("dim0", 0), rank), normal(a.get("dim1", 1), rank)
        dims[one], dims[other] = dims[other], dims[one]
    return permuted(b, a["self"], dims)


@rule("aten.expand.default", "prims.broadcast_in_dim.default")
def _expand(b: Builder, a: dict[str, Any], out: Any) -> Value:
    size = tuple(out.shape)
    value = a.get("self")
    if value is None:
        value = a["a"]
        kept = dict(zip(a["broadcast_dimensions"], value.size, strict=True))
        value = b.view(value, [kept.get(d, 1) for d in range(len(size))])
    return b.move("expand", value, size, {"size": list(size)})


@rule("aten.slice.Tensor", "aten.slice_scatter.default")
def _slice(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = a["self"]
    dim = normal(a["dim"], len(value.size))
    extent = value.size[dim]
    start, end, _ = slice(a["start"], a["end"]).indices(extent)
    attributes = {"dim": dim, "start": start, "end": max(start, end), "step": a["step"]}
    if "src" in a:
        return _put_back(b, "slice_scatter", value, a["src"], attributes)
    return b.move("slice", value, tuple(out.shape), attributes)


@rule("aten.select.int", "aten.select_scatter.default")
def _select(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = a["self"]
    dim = normal(a["dim"], len(value.size))
    attributes = {"dim": dim, "index": a["index"] % value.size[dim]}
    if "src" in a:
        return _put_back(b, "select_scatter", value, a["src"], attributes)
    return b.move("select", value, tuple(out.shape), attributes)


def _put_back(b: Builder, op: str, value: Value, source: Value, attributes: dict[str, Any]) -> Value:
    inputs = {"input": value, "source": b.convert(source, value.format)}
    return b.apply("movement", op, inputs, {"output": (value.size, value.format)}, attributes)[0]


def _pieces(b: Builder, value: Value, dim: int, ends: Sequence[tuple[int, int]]) -> tuple[Value, ...]:
    made = []
    for start, end in ends:
        size = [end - start if d == dim else n for d, n in enumerate(value.size)]
        made.append(b.move("slice", value, size, {"dim": dim, "start": start, "end": end, "step": 1}))
    return tuple(made)


@rule("aten.split_with_sizes.default", "aten.split.Tensor", "aten.split.sizes", "aten.unbind.int")
def _split(b: Builder, a: dict[str, Any], out: Any) -> tuple[Value, ...]:
    value = a["self"]
    dim = normal(a["dim"], len(value.size))
    bind = len(out[0].shape) < len(value.size)
    ends, start = [], 0
    for part in out:
        end = start + (1 if bind else part.shape[dim])
        ends.append((start, end))
        start = end
    pieces = _pieces(b, value, dim, ends)
    return tuple(b.view(piece, tuple(like.shape)) for piece, like in zip(pieces, out, strict=True))


@rule("aten.cat.default", empty=True)
def _cat(b: Builder, a: dict[str, Any], out: Any) -> Value:
    wanted = format_name(out.dtype)
    parts = [b.convert(part, wanted) for part in a["tensors"] if part.elements]
    inputs = {f"input{n}": part for n, part in enumerate(parts)}
    attributes = {"dim": normal(a["dim"], len(out.shape))}
    return b.apply("movement", "cat", inputs, {"output": (tuple(out.shape), wanted)}, attributes)[0]


@rule("aten.constant_pad_nd.default", empty=True)
def _pad(b: Builder, a: dict[str, Any], out: Any) -> Value:
    if not a["self"].elements:
        return b.full(tuple(out.shape), a["self"].format, a["value"])
    attributes = {"pad": list(a["pad"]), "value": encoded(a["value"])}
    return b.move("constant_pad", a["self"], tuple(out.shape), attributes)


@rule("aten.flip.default")
def _flip(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = a["self"]
    return b.move("flip", value, value.size, {"dims": [normal(d, len(value.size)) for d in a["dims"]]})


@rule("aten.repeat.default")
def _repeat(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return b.move("repeat", a["self"], tuple(out.shape), {"repeats": list(a["repeats"])})


@rule("aten.roll.default")
def _roll(b: Builder, a: dict[str, Any], out: Any) -> Value:
    attributes = {"shifts": list(a["shifts"]), "dims": list(a["dims"] or [])}
    return b.move("roll", a["self"], a["self"].size, attributes)


@rule("aten.diagonal.default")
def _diagonal(b: Builder, a: dict[str, Any], out: Any) -> Value:
    attributes = {name: a[name] for name in ("offset", "dim1", "dim2")}
    return b.move("diagonal", a["self"], tuple(out.shape), attributes)


@rule("aten.unfold.default")
def _unfold(b: Builder, a: dict[str, Any], out: Any) -> Value:
    attributes = {
        "dim": normal(a["dimension"], len(a["self"].size)),
        "size": a["size"],
        "step": a["step"],
    }
    return b.move("unfold", a["self"], tuple(out.shape), attributes)


def _enter_triangle(op: str) -> None:
    @rule(f"aten.{op}.default")
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        return b.move(op, a["self"], a["self"].size, {"diagonal": a["diagonal"]})


for _op in ("tril", "triu"):
    _enter_triangle(_op)


@rule("aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default")
@rule("aten.contiguous.default", "aten.lift_fresh.default")
def _clone(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = a["self"]
    return b.move("copy", value, value.size)


@rule("aten._to_copy.default", "prims.convert_element_type.default", "aten.to.dtype")
def _cast(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = a["self"] if "self" in a else a["a"]
    wanted = format_name(out.dtype)
    return b.move("copy", value, value.size) if value.format == wanted else b.convert(value, wanted)


@rule("aten.copy.default")
def _copy(b: Builder, a: dict[str, Any], out: Any) -> Value:
    source, size = b.convert(a["src"], format_name(out.dtype)), tuple(out.shape)
    if source.size == size:
        return b.move("copy", source, size)
    return b.move("expand", source, size, {"size": list(size)})


# ---- fills ----------------------------------------------------------------------------------------------


@rule("aten.full.default", "aten.full_like.default", "aten.scalar_tensor.default", "aten.new_full.default")
@rule("aten.fill.Scalar", empty=True)
def _full(b: Builder, a: dict[str, Any], out: Any) -> Value:
    number = a["fill_value"] if "fill_value" in a else a.get("value", a.get("s"))
    return b.full(tuple(out.shape), format_name(out.dtype), number)  # type: ignore[arg-type]


@rule("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default", "aten.empty.memory_format")
@rule("aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default")
@rule("aten.new_empty_strided.default", "aten.empty_permuted.default")
def _zeros(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return b.full(tuple(out.shape), format_name(out.dtype), 0)


@rule("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return b.full(tuple(out.shape), format_name(out.dtype), 1)


@rule("aten.arange.start_step", "aten.arange.start", "aten.arange.default", "prims.iota.default")
def _arange(b: Builder, a: dict[str, Any], out: Any) -> Value:
    start, step = a.get("start") or 0, a.get("step", 1)
    attributes = {"start": start, "step": step}
    outputs = {"output": (tuple(out.shape), format_name(out.dtype))}
    return b.apply("fill", "arange", {}, outputs, attributes)[0]


# ---- gathers and scatters -------------------------------------------------------------------------------


def integers(index: Value) -> Value:
    """Returns an integer index. Raises NotNative for others: a mask's result size is data-dependent."""
    if index.format not in ("int64", "int32"):
        raise NotNative(f"an index of {index.format}")
    return index


@rule("aten.embedding.default")
def _embedding(b: Builder, a: dict[str, Any], out: Any) -> Value:
    inputs = {"weight": a["weight"], "indices": integers(a["indices"])}
    outputs = {"output": (tuple(out.shape), a["weight"].format)}
    return b.apply("gather", "embedding", inputs, outputs, {"padding_idx": a["padding_idx"]})[0]


@rule("aten.embedding_dense_backward.default")
def _embedding_backward(b: Builder, a: dict[str, Any], out: Any) -> Value:
    if a["scale_grad_by_freq"]:
        raise NotNative("an embedding's gradient scaled by frequency")
    grad = a["grad_output"]
    inputs = {"grad_output": grad, "indices": integers(a["indices"])}
    attributes = {"num_weights": a["num_weights"], "padding_idx": a["padding_idx"]}
    outputs = {"output": (tuple(out.shape), grad.format)}
    return b.apply("scatter", "embedding_backward", inputs, outputs, attributes)[0]


@rule("aten.gather.default", "aten.index_select.default")
def _gather(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = a["self"]
    if not value.size:
        raise NotNative("a gather from one number")
    op = "gather" if "sparse_grad" in a else "index_select"
    inputs = {"input": value, "index": integers(a["index"])}
    attributes = {"dim": normal(a["dim"], len(value.size))}
    return b.apply("gather", op, inputs, {"output": (tuple(out.shape), value.format)}, attributes)[0]


def _indices(a: dict[str, Any]) -> tuple[list[int], dict[str, Value]]:
    """(indexed dimensions, index operands by name)."""
    places = [(dim, index) for dim, index in enumerate(a["indices"]) if index is not None]
    dims = [dim for dim, _ in places]
    return dims, {f"index{n}": integers(index) for n, (_, index) in enumerate(places)}


@rule("aten.index.Tensor")
def _index(b: Builder, a: dict[str, Any], out: Any) -> Value:
    dims, indices = _indices(a)
    inputs = {"input": a["self"], **indices}
    outputs = {"output": (tuple(out.shape), a["self"].format)}
    return b.apply("gather", "index", inputs, outputs, {"dims": dims})[0]


@rule("aten.index_put.default")
def _index_put(b: Builder, a: dict[str, Any], out: Any) -> Value:
    dims, indices = _indices(a)
    if not dims:
        raise NotNative("an index_put without an index")
    value = a["self"]
    inputs = {"input": value, **indices, "source": b.convert(a["values"], value.format)}
    attributes = {"dims": dims, "accumulate": bool(a["accumulate"])}
    return b.apply("scatter", "index_put", inputs, {"output": (value.size, value.format)}, attributes)[0]


@rule("aten.scatter.src", "aten.scatter_add.default", "aten.index_add.default", "aten.scatter.value")
def _scatter(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value, index = a["self"], integers(a["index"])
    if not value.size:
        raise NotNative("a scatter into one number")
    attributes: dict[str, Any] = {"dim": normal(a["dim"], len(value.size))}
    source: Any = a.get("src", a.get("source"))
    inputs = {"input": value, "index": index}
    if source is not None:
        inputs["source"] = b.convert(source, value.format)
    else:
        attributes["value"] = encoded(a["value"])
    op = "scatter"
    if "alpha" in a:
        op = "index_add"
        if a["alpha"] != 1:
            inputs["source"] = elementwise(b, "mul", (source, a["alpha"]), source)
    elif source is not None and "reduce" not in a and a["_op"].startswith("aten.scatter_add"):
        op = "scatter_add"
    return b.apply("scatter", op, inputs, {"output": (value.size, value.format)}, attributes)[0]


@rule("aten.as_strided.default")
def _as_strided(b: Builder, a: dict[str, Any], out: Any) -> Value:
    size, stride = tuple(a["size"]), tuple(a["stride"])
    offset = a["storage_offset"] or 0
    traced = a["_traced"]["self"]
    whole = traced.untyped_storage().nbytes() == traced.numel() * traced.element_size()
    if not traced.is_contiguous() or traced.storage_offset() or not whole:
        raise NotNative("a view of more than its operand's own elements")
    reach = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 0
    if reach >= max(math.prod(traced.shape), 1):
        raise NotNative("a view past its operand")
    attributes = {"size": list(size), "stride": list(stride), "offset": offset}
    return b.move("as_strided", a["self"], size, attributes)
