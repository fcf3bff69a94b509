"""Rules of the reference front end for elementwise operators: convert to a common format, then one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from accel_lab.mock.spec.vocabulary import COMPARISONS, FLOAT_FUNCTIONS, ROUNDINGS

from .builder import Builder, Input, NotNative, Value
from .rules import common_format, format_name, lanes_of, opmath, rule

SAME = ("neg", "abs", "relu", *ROUNDINGS, "sign", "isnan", "isinf", "logical_not", "bitwise_not")
#: Binary operators: ATen's name -> the statement's.
BINARY = {
    **{name: name for name in ("mul", "fmod", "remainder", "maximum", "minimum", *COMPARISONS)},
    **{f"logical_{name}": f"logical_{name}" for name in ("and", "or", "xor")},
    **{f"bitwise_{name}": f"bitwise_{name}" for name in ("and", "or", "xor")},
    "floor_divide": "floor_div",
}


def same_places(value: Value, size: Sequence[int], format_name_: str) -> bool:
    """Whether a kernel of another format can address the operand with strides."""
    lanes = lanes_of(format_name_)
    return (
        value.layout.lanes == lanes
        or not value.size
        or value.size[-1] == 1
        or (bool(size) and size[-1] <= min(lanes, value.layout.lanes))
    )


def elementwise(
    b: Builder,
    op: str,
    inputs: Sequence[Input],
    out: Any,
    *,
    floating: bool = False,
    attributes: dict[str, Any] | None = None,
    common: str | None = None,
) -> Value:
    """Emits one statement on operands converted to torch's common format."""
    work = common or common_format(inputs, floating=floating)
    converted = [b.convert(value, work) if isinstance(value, Value) else value for value in inputs]
    wanted = format_name(out.dtype)
    direct = lanes_of(wanted) == lanes_of(work)
    result = b.pointwise(op, converted, out.shape, wanted if direct else work, attributes=attributes)
    return b.convert(result, wanted)


def _enter_unary(name: str, floating: bool) -> None:
    @rule(f"aten.{name}.default")
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        if name in ROUNDINGS and not a["self"].dtype.is_floating_point:
            return a["self"]  # type: ignore[no-any-return]
        return elementwise(b, name, (a["self"],), out, floating=floating)


def _enter_binary(name: str, op: str, overload: str) -> None:
    @rule(f"aten.{name}.{overload}")
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        return elementwise(b, op, (a["self"], a["other"]), out)


for _name in FLOAT_FUNCTIONS:
    _enter_unary(_name, floating=True)
for _name in SAME:
    _enter_unary(_name, floating=False)
for _name, _op in BINARY.items():
    for _overload in ("Tensor", "Scalar", "default", "Scalar_Tensor"):
        _enter_binary(_name, _op, _overload)


def scaled_sum(b: Builder, op: str, one: Input, other: Input, alpha: Any, out: Any) -> Value:
    """Emits ``one + alpha * other`` (or minus); as in eager, halves use fp32 unless alpha is 1."""
    if alpha == 1:
        return elementwise(b, op, (one, other), out)
    work = opmath(common_format((one, other)))
    if not isinstance(other, Value):
        return elementwise(b, op, (one, other * alpha), out, common=work)
    term = b.pointwise("mul", (b.convert(other, work), alpha), other.size, work)
    return elementwise(b, op, (one, term), out, common=work)


@rule("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def _sum(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return scaled_sum(b, a["_op"].split(".")[1], a["self"], a["other"], a["alpha"], out)


@rule("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(b: Builder, a: dict[str, Any], out: Any) -> Value:
    if a["alpha"] != 1:
        raise NotNative("rsub with a factor")
    return elementwise(b, "sub", (a["other"], a["self"]), out)


@rule("aten.div.Tensor", "aten.div.Scalar", "prims.div.default")
def _div(b: Builder, a: dict[str, Any], out: Any) -> Value:
    if a["_op"].startswith("prims"):
        if not out.dtype.is_floating_point:
            raise NotNative("a truncated division of integers")
        return elementwise(b, "div", (a["a"], a["b"]), out)
    return elementwise(b, "div", (a["self"], a["other"]), out, floating=True)


@rule("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(b: Builder, a: dict[str, Any], out: Any) -> Value:
    inputs, mode = (a["self"], a["other"]), a["rounding_mode"]
    if mode is None:
        return elementwise(b, "div", inputs, out, floating=True)
    if mode == "floor":
        return elementwise(b, "floor_div", inputs, out)
    work = common_format(inputs)
    if not out.dtype.is_floating_point:
        raise NotNative("a truncated division of integers")
    quotient = elementwise(b, "div", inputs, out, common=work)
    return elementwise(b, "trunc", (quotient,), out)


@rule("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def _pow(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return elementwise(b, "pow", (a["self"], a["exponent"]), out)


@rule("aten.atan2.default")
def _atan2(b: Builder, a: dict[str, Any], out: Any) -> Value:
    return elementwise(b, "atan2", (a["self"], a["other"]), out, floating=True)


@rule("aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default", "aten.hardtanh.default")
def _clamp(b: Builder, a: dict[str, Any], out: Any) -> Value:
    low, high = a.get("min", a.get("min_val")), a.get("max", a.get("max_val"))
    attributes = {name: _number(n) for name, n in (("min", low), ("max", high)) if n is not None}
    bounds = [n for n in (low, high) if n is not None]
    common = common_format((a["self"], *bounds))
    return elementwise(b, "clamp", (a["self"],), out, attributes=attributes, common=common)


@rule("aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor")
def _clamp_tensor(b: Builder, a: dict[str, Any], out: Any) -> Value:
    result = a["self"]
    common = common_format([n for n in (result, a.get("min"), a.get("max")) if n is not None])
    for op, bound in (("maximum", a.get("min")), ("minimum", a.get("max"))):
        if bound is not None:
            result = elementwise(b, op, (result, bound), out, common=common)
    return result  # type: ignore[no-any-return]


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@rule("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def _where(b: Builder, a: dict[str, Any], out: Any) -> Value:
    if a["condition"].format != "bool":
        raise NotNative("a condition that is not bool")
    return choose(b, a["condition"], a["self"], a["other"], out)


def choose(b: Builder, condition: Value, one: Input, other: Input, out: Any) -> Value:
    """Emits ``where`` with a bool condition; if lane counts differ, all operands become one-stick rows."""
    work = format_name(out.dtype)
    size = tuple(out.shape)
    values = [b.convert(value, work) if isinstance(value, Value) else value for value in (one, other)]
    inputs: list[Input] = [condition, *values]
    if same_places(condition, size, work):
        return b.pointwise("where", inputs, size, work)
    lanes, elements = lanes_of(work), math.prod(size)
    padded = -(-elements // lanes) * lanes
    rows = [
        _in_rows(b, value, size, padded, lanes) if isinstance(value, Value) else value for value in inputs
    ]
    result = b.view(b.pointwise("where", rows, (padded // lanes, lanes), work), (padded,))
    if padded != elements:
        attributes = {"dim": 0, "start": 0, "end": elements, "step": 1}
        result = b.move("slice", result, (elements,), attributes)
    return b.view(result, size)


def _in_rows(b: Builder, value: Value, size: tuple[int, ...], padded: int, lanes: int) -> Value:
    """A tensor broadcast to ``size``, as zero-padded rows of ``lanes`` elements."""
    if value.size != size:
        value = b.move("expand", value, size, {"size": list(size)})
    flat = b.view(value, (value.elements,))
    if padded != value.elements:
        attributes = {"pad": [0, padded - value.elements], "value": 0}
        flat = b.move("constant_pad", flat, (padded,), attributes)
    return b.view(flat, (padded // lanes, lanes))


# ---- composite operators of core ATen --------------------------------------------------------------------


def chain(b: Builder, value: Value, *steps: tuple[str, tuple[Input, ...]]) -> Value:
    """Emits a chain of statements in one format; the first input of each is the previous result."""
    for op, others in steps:
        value = b.pointwise(op, (value, *others), value.size, value.format)
    return value


@rule("aten.gelu.default")
def _gelu(b: Builder, a: dict[str, Any], out: Any) -> Value:
    x = b.convert(a["self"], opmath(a["self"].format))
    if a["approximate"] == "none":
        inner = chain(b, x, ("mul", (math.sqrt(0.5),)), ("erf", ()))
    else:
        cube = chain(b, x, ("mul", (x,)), ("mul", (x,)), ("mul", (0.044715,)))
        inner = chain(b, x, ("add", (cube,)), ("mul", (math.sqrt(2 / math.pi),)), ("tanh", ()))
    gate = chain(b, inner, ("add", (1.0,)), ("mul", (0.5,)))
    return b.convert(chain(b, x, ("mul", (gate,))), format_name(out.dtype))


@rule("aten.silu.default")
def _silu(b: Builder, a: dict[str, Any], out: Any) -> Value:
    x = b.convert(a["self"], opmath(a["self"].format))
    return b.convert(chain(b, x, ("mul", (chain(b, x, ("sigmoid", ())),))), format_name(out.dtype))


@rule("aten.leaky_relu.default")
def _leaky_relu(b: Builder, a: dict[str, Any], out: Any) -> Value:
    x = a["self"]
    negative = elementwise(b, "mul", (x, a["negative_slope"]), out)
    positive = b.convert(b.pointwise("gt", (x, 0), x.size, x.format), "bool")
    return choose(b, positive, x, negative, out)


@rule("aten.elu.default")
def _elu(b: Builder, a: dict[str, Any], out: Any) -> Value:
    x = b.convert(a["self"], opmath(a["self"].format))
    below = chain(b, x, ("mul", (a["input_scale"],)), ("expm1", ()), ("mul", (a["alpha"] * a["scale"],)))
    above = chain(b, x, ("mul", (a["scale"],)))
    positive = b.convert(b.pointwise("gt", (x, 0), x.size, x.format), "bool")
    return b.convert(choose(b, positive, above, below, _Like(out, x.dtype)), format_name(out.dtype))


class _Like:
    """A traced result's shape with another dtype."""

    def __init__(self, out: Any, dtype: Any) -> None:
        self.shape, self.dtype = out.shape, dtype
