"""Rules of the reference front end for reductions, matrix products, norms, scans and sorts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .builder import Builder, NotNative, Value
from .pointwise import chain, scaled_sum
from .rules import format_name, norm_dims, normal, opmath, rule


def reduced(b: Builder, op: str, value: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Emits a reduction in the operand's format; 0-d and empty tensors need no kernel. Raises NotNative."""
    if not value.size:
        return value
    kept = tuple(1 if d in dims else n for d, n in enumerate(value.size))
    if not value.elements:
        if op not in ("sum", "prod", "any", "all"):
            raise NotNative(f"{op} of no elements")
        result = b.full(kept, value.format, int(op in ("prod", "all")))
    elif not dims:
        result = value
    else:
        result = b.reduce(op, value, dims, value.format)
    return result if keepdim else b.view(result, [n for d, n in enumerate(kept) if d not in dims])


def _shaped(op: str) -> Any:
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        value = a["self"]
        rank = len(value.size)
        dims = norm_dims(a.get("dim"), rank)
        if op in ("any", "all"):
            value = b.convert(value, "bool")
        elif op in ("sum", "prod"):
            value = b.convert(value, format_name(out.dtype))
        result = reduced(b, op, value, dims, bool(a.get("keepdim")))
        return b.convert(result, format_name(out.dtype))

    return lower


for _op, _overloads in {
    "sum": ("default", "dim_IntList"),
    "prod": ("default", "dim_int"),
    "amax": ("default",),
    "amin": ("default",),
    "any": ("default", "dim", "dims"),
    "all": ("default", "dim", "dims"),
}.items():
    rule(*(f"aten.{_op}.{_overload}" for _overload in _overloads), empty=True)(_shaped(_op))


@rule("prims.sum.default", empty=True)
def _prims_sum(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = b.convert(a["inp"], format_name(out.dtype))
    return reduced(b, "sum", value, list(a["dims"] or []), False)


@rule("aten.mean.default", "aten.mean.dim", empty=True)
def _mean(b: Builder, a: dict[str, Any], out: Any) -> Value:
    wanted = format_name(out.dtype)
    value = b.convert(b.convert(a["self"], wanted), opmath(wanted))
    dims = norm_dims(a.get("dim"), len(value.size))
    return b.convert(average(b, value, dims, bool(a.get("keepdim"))), wanted)


def average(b: Builder, value: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Emits the mean; NaN for no elements."""
    total = reduced(b, "sum", value, dims, keepdim)
    count = math.prod(value.size[d] for d in dims) if value.size else 1
    if not count:
        return b.full(total.size, total.format, math.nan)
    return chain(b, total, ("div", (count,)))


def _enter_argument(op: str) -> None:
    @rule(f"aten.{op}.default")
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        value, size = a["self"], tuple(out.shape)
        if value.format == "bool":
            raise NotNative("the place of an extreme among bools")
        if not value.size:
            return b.full((), "int64", 0)
        if a["dim"] is None:
            value, dim = b.view(value, (value.elements,)), 0
        else:
            dim = normal(a["dim"], len(value.size))
        last = len(value.size) - 1
        if dim != last:
            value = permuted(b, value, [d for d in range(last + 1) if d != dim] + [dim])
        return b.view(b.reduce(op, value, [last], "int64"), size)


for _op in ("argmax", "argmin"):
    _enter_argument(_op)


def permuted(b: Builder, value: Value, dims: Sequence[int]) -> Value:
    """Returns the tensor with its dimensions permuted."""
    size = [value.size[d] for d in dims]
    return b.move("permute", value, size, {"dims": list(dims)})


# ---- the matrix unit ------------------------------------------------------------------------------------


def product(b: Builder, left: Value, right: Value, result: str | None = None) -> Value:
    """Emits a floating-point matrix product, in format ``result`` if given; zeros if an operand is empty."""
    if not left.dtype.is_floating_point:
        raise NotNative(f"the matrix unit does not multiply {left.format}")
    if not left.elements or not right.elements:
        return b.full((*left.size[:-1], right.size[-1]), result or left.format, 0)
    return b.matmul(left, right, result)


@rule("aten.mm.default", "aten.bmm.default", empty=True)
def _mm(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return product(b, a["self"], a["mat2"])


@rule("aten.addmm.default", "aten.baddbmm.default", empty=True)
def _addmm(b: Builder, a: dict[str, Any], out: Any) -> Value:
    left, right = (a["mat1"], a["mat2"]) if "mat1" in a else (a["batch1"], a["batch2"])
    work = opmath(left.format)  # eager rounds once, after the sum
    result = product(b, left, right, work)
    if a["alpha"] != 1:
        result = b.pointwise("mul", (result, a["alpha"]), result.size, work)
    if a["beta"] == 0:
        return b.convert(result, format_name(out.dtype))
    return scaled_sum(b, "add", result, a["self"], a["beta"], out)


@rule("aten.dot.default", "aten.mv.default", empty=True)
def _vector(b: Builder, a: dict[str, Any], out: Any) -> Value:
    left, right = a["self"], a["vec"] if "vec" in a else a["tensor"]
    rows = b.view(left, (1, *left.size)) if len(left.size) == 1 else left
    result = product(b, rows, b.view(right, (*right.size, 1)))
    return b.view(result, tuple(out.shape))


# ---- normalisations -------------------------------------------------------------------------------------


def shifted(b: Builder, value: Value, dim: int) -> tuple[Value, Value]:
    """Emits ``(x - max, exp(x - max))`` along a dimension."""
    top = reduced(b, "amax", value, [dim], True) if value.size else value
    lowered = chain(b, value, ("sub", (top,)))
    return lowered, chain(b, lowered, ("exp", ()))


@rule("aten._softmax.default", "aten._safe_softmax.default")
def _softmax(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = b.convert(a["self"], opmath(a["self"].format))
    dim = normal(a["dim"], len(value.size))
    _, raised = shifted(b, value, dim)
    total = reduced(b, "sum", raised, [dim], True)
    return b.convert(chain(b, raised, ("div", (total,))), format_name(out.dtype))


@rule("aten._log_softmax.default")
def _log_softmax(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = b.convert(a["self"], opmath(a["self"].format))
    dim = normal(a["dim"], len(value.size))
    lowered, raised = shifted(b, value, dim)
    total = chain(b, reduced(b, "sum", raised, [dim], True), ("log", ()))
    return b.convert(chain(b, lowered, ("sub", (total,))), format_name(out.dtype))


def moments(b: Builder, value: Value, dims: Sequence[int], correction: float) -> tuple[Value, Value, Value]:
    """Emits ``(mean, x - mean, variance)`` with the dimensions kept."""
    middle = average(b, value, dims, True)
    centred = chain(b, value, ("sub", (middle,)))
    total = reduced(b, "sum", chain(b, centred, ("mul", (centred,))), dims, True)
    freedom = max(math.prod(value.size[d] for d in dims) - correction, 0)
    return middle, centred, chain(b, total, ("div", (freedom,)))


@rule("aten.var.correction", "aten.var_mean.correction")
def _var(b: Builder, a: dict[str, Any], out: Any) -> Any:
    wanted = a["self"].format
    value = b.convert(a["self"], opmath(wanted))
    if not value.size:
        raise NotNative("a variance of one number")
    dims = norm_dims(a["dim"], len(value.size))
    correction = 1 if a["correction"] is None else a["correction"]
    middle, _, variance = moments(b, value, dims, correction)
    first = out[0] if isinstance(out, (tuple, list)) else out
    results = [b.convert(b.view(part, tuple(first.shape)), wanted) for part in (variance, middle)]
    return tuple(results) if isinstance(out, (tuple, list)) else results[0]


@rule("prims.var.default")
def _prims_var(b: Builder, a: dict[str, Any], out: Any) -> Value:
    value = b.convert(a["inp"], opmath(a["inp"].format))
    if not value.size:
        raise NotNative("a variance of one number")
    _, _, variance = moments(b, value, list(a["dims"] or []), a["correction"])
    return b.convert(b.view(variance, tuple(out.shape)), format_name(out.dtype))


@rule("aten.native_layer_norm.default")
def _layer_norm(b: Builder, a: dict[str, Any], out: Any) -> tuple[Value, ...]:
    value = b.convert(a["input"], opmath(a["input"].format))
    dims = range(len(value.size) - len(a["normalized_shape"]), len(value.size))
    middle, centred, variance = moments(b, value, list(dims), 0)
    scale = chain(b, variance, ("add", (a["eps"],)), ("rsqrt", ()))
    result = chain(b, centred, ("mul", (scale,)))
    return _affine(b, result, a["weight"], a["bias"], out), *_as_traced(b, (middle, scale), out[1:])


@rule("aten.native_group_norm.default")
def _group_norm(b: Builder, a: dict[str, Any], out: Any) -> tuple[Value, ...]:
    count, channels, groups = a["N"], a["C"], a["group"]
    value = b.convert(a["input"], opmath(a["input"].format))
    rows = b.view(value, (count, groups, value.elements // (count * groups)))
    middle, centred, variance = moments(b, rows, [2], 0)
    scale = chain(b, variance, ("add", (a["eps"],)), ("rsqrt", ()))
    result = b.view(chain(b, centred, ("mul", (scale,))), value.size)
    each = (channels, *(1 for _ in value.size[2:]))
    weight, bias = (None if part is None else b.view(part, each) for part in (a["weight"], a["bias"]))
    return _affine(b, result, weight, bias, out), *_as_traced(b, (middle, scale), out[1:])


def _affine(b: Builder, value: Value, weight: Value | None, bias: Value | None, out: Any) -> Value:
    if weight is not None:
        value = chain(b, value, ("mul", (b.convert(weight, value.format),)))
    if bias is not None:
        value = chain(b, value, ("add", (b.convert(bias, value.format),)))
    return b.convert(value, format_name(out[0].dtype))


def _as_traced(b: Builder, values: Sequence[Value], traced: Sequence[Any]) -> list[Value]:
    return [
        b.convert(b.view(value, tuple(like.shape)), format_name(like.dtype))
        for value, like in zip(values, traced, strict=True)
    ]


# ---- scans and sorts ------------------------------------------------------------------------------------


def _enter_scan(op: str) -> None:
    @rule(f"aten.{op}.default")
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        value = b.convert(a["self"], format_name(out.dtype))
        if not value.size:
            return value
        attributes = {"dim": normal(a["dim"], len(value.size))}
        return b.apply("scan", op, {"input": value}, {"output": (value.size, value.format)}, attributes)[0]


for _op in ("cumsum", "cumprod"):
    _enter_scan(_op)


@rule("aten.topk.default", "aten.sort.default", "aten.sort.stable")
def _sort(b: Builder, a: dict[str, Any], out: Any) -> tuple[Value, ...]:
    value = a["self"]
    if not value.size:
        raise NotNative("an order of one number")
    attributes: dict[str, Any] = {"dim": normal(a["dim"], len(value.size))}
    if "k" in a:
        op = "topk"
        attributes.update(k=a["k"], largest=a["largest"], sorted=a["sorted"])
    else:
        op = "sort"
        attributes.update(descending=bool(a["descending"]), stable=bool(a.get("stable")))
    size = tuple(out[0].shape)
    outputs = {"values": (size, value.format), "indices": (size, "int64")}
    return b.apply("sort", op, {"input": value}, outputs, attributes)
