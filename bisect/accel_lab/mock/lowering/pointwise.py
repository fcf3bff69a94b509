"""Lowerings of elementwise operators: each becomes a nest of a few statements over the output's loops."""

from __future__ import annotations

from typing import Any

import torch

from accel_lab.mock.device import format_of
from accel_lab.mock.ir.loop_ir import View
from accel_lab.mock.spec.vocabulary import COMPARISONS, FLOAT_FUNCTIONS, ROUNDINGS

from .builder import Builder, Unsupported, lowers
from .formats import Number

Input = View | Number

_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")


def common_dtype(build: Builder, *inputs: Input) -> torch.dtype:
    """Returns torch's promoted dtype of tensors, 0-d tensors and numbers. Raises Unsupported."""
    stand_ins: list[Any] = []
    for entry in inputs:
        if isinstance(entry, View):
            stand_ins.append(torch.empty((1,) * min(len(entry.size), 1), dtype=build.dtype(entry)))
        else:
            stand_ins.append(entry)
    if len(stand_ins) == 1:
        return (
            stand_ins[0].dtype if isinstance(stand_ins[0], torch.Tensor) else torch.tensor(stand_ins[0]).dtype
        )
    result = torch.result_type(stand_ins[0], stand_ins[1])
    for position in range(2, len(stand_ins)):
        result = torch.promote_types(result, torch.result_type(stand_ins[0], stand_ins[position]))
    if format_of(result) is None:
        raise Unsupported(f"the device has no {str(result).removeprefix('torch.')}")
    return result


def _unary(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View) -> View:
        return build.pointwise(op, [x], out.dtype)


def _rounding(op: str) -> None:
    @lowers(f"aten.{op}.default")
    def lower(build: Builder, out: torch.Tensor, x: View) -> View:
        if not out.dtype.is_floating_point:
            return x
        return build.pointwise(op, [x], out.dtype)


def _comparison(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View, y: Input) -> View:
        return build.pointwise(op, [x, y], torch.bool, compute=common_dtype(build, x, y), size=out.shape)


def _binary(op: str, *names: str) -> None:
    @lowers(*names)
    def lower(build: Builder, out: torch.Tensor, x: Input, y: Input) -> View:
        return build.pointwise(op, [x, y], out.dtype, size=out.shape)


def _logical(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View, y: View) -> View:
        return build.pointwise(op, [x, y], torch.bool, size=out.shape)


for _name in (*FLOAT_FUNCTIONS, "neg", "abs", "relu", "sign", "bitwise_not"):
    _unary(_name)
for _name in ROUNDINGS:
    _rounding(_name)
for _name in COMPARISONS:
    _comparison(_name)
for _name in _LOGICAL:
    _logical(_name)
for _name in _BITWISE:
    _binary(_name, f"aten.{_name}")
_binary("mul", "aten.mul")
_binary("pow", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
_binary("fmod", "aten.fmod")
_binary("remainder", "aten.remainder")
_binary("atan2", "aten.atan2")
_binary("maximum", "aten.maximum")
_binary("minimum", "aten.minimum")
_binary("floor_div", "aten.floor_divide")


def _special(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View) -> View:
        if not build.dtype(x).is_floating_point:
            return build.full(out.shape, False, torch.bool)
        return build.pointwise(op, [x], torch.bool, compute=build.dtype(x))


_special("isnan")
_special("isinf")


@lowers("aten.logical_not")
def _logical_not(build: Builder, out: torch.Tensor, x: View) -> View:
    return build.pointwise("logical_not", [x], torch.bool, compute=build.dtype(x))


def _scaled(build: Builder, y: Input, alpha: Number, dtype: torch.dtype) -> Input:
    if alpha == 1:
        return y
    if not isinstance(y, View):
        return y * alpha
    return build.pointwise("mul", [y, alpha], dtype)


def _sum(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: Input, y: Input, alpha: Number = 1) -> View:
        return build.pointwise(op, [x, _scaled(build, y, alpha, out.dtype)], out.dtype, size=out.shape)


_sum("add")
_sum("sub")


@lowers("aten.div")
def _div(build: Builder, out: torch.Tensor, x: Input, y: Input, rounding_mode: str | None = None) -> View:
    if rounding_mode == "floor":
        return build.pointwise("floor_div", [x, y], out.dtype, size=out.shape)
    if rounding_mode == "trunc":
        if out.dtype.is_floating_point:
            whole = build.pointwise("div", [x, y], out.dtype, size=out.shape)
            return build.pointwise("trunc", [whole], out.dtype)
        rest = build.pointwise("fmod", [x, y], out.dtype, size=out.shape)
        even = build.pointwise("sub", [x, rest], out.dtype, size=out.shape)
        return build.pointwise("floor_div", [even, y], out.dtype, size=out.shape)
    return build.pointwise("div", [x, y], out.dtype, size=out.shape)


@lowers("aten.pow.Tensor_Scalar")
def _power(build: Builder, out: torch.Tensor, x: View, exponent: Number) -> View:
    if exponent == 2:
        return build.pointwise("mul", [x, x], out.dtype)
    return build.pointwise("pow", [x, exponent], out.dtype)


@lowers("aten.log10")
def _log10(build: Builder, out: torch.Tensor, x: View) -> View:
    return build.pointwise("div", [build.pointwise("log", [x], out.dtype), 2.302585092994046], out.dtype)


@lowers("aten.where.self")
def _where(build: Builder, out: torch.Tensor, condition: View, x: View, y: View) -> View:
    return build.pointwise("where", [condition, x, y], out.dtype, size=out.shape)


@lowers("aten.clamp.default")
def _clamp(
    build: Builder, out: torch.Tensor, x: View, low: Number | None = None, high: Number | None = None
) -> View:
    attributes = {name: value for name, value in (("min", low), ("max", high)) if value is not None}
    return build.pointwise("clamp", [x], out.dtype, attributes=attributes)


@lowers("aten.clamp_min.default")
def _clamp_min(build: Builder, out: torch.Tensor, x: View, low: Number) -> View:
    return _clamp(build, out, x, low, None)


@lowers("aten.clamp_max.default")
def _clamp_max(build: Builder, out: torch.Tensor, x: View, high: Number) -> View:
    return _clamp(build, out, x, None, high)


@lowers("aten.clamp.Tensor")
def _clamp_by_tensors(
    build: Builder, out: torch.Tensor, x: View, low: View | None = None, high: View | None = None
) -> View:
    for op, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            x = build.pointwise(op, [x, bound], out.dtype)
    return x.expanded(tuple(out.shape))


@lowers("aten.hardtanh")
def _hardtanh(build: Builder, out: torch.Tensor, x: View, low: Number = -1.0, high: Number = 1.0) -> View:
    return _clamp(build, out, x, low, high)


@lowers("aten.leaky_relu")
def _leaky_relu(build: Builder, out: torch.Tensor, x: View, slope: Number = 0.01) -> View:
    above = build.pointwise("gt", [x, 0], torch.bool, compute=build.dtype(x))
    scaled = build.pointwise("mul", [x, slope], out.dtype)
    return build.pointwise("where", [above, x, scaled], out.dtype)


@lowers(
    "aten.clone", "aten.alias", "aten.detach", "aten.lift_fresh_copy", "aten.lift_fresh", "aten.contiguous"
)
def _same(build: Builder, out: torch.Tensor, x: View, **_: Any) -> View:
    return x


@lowers("aten._to_copy", "aten.to", "aten._to_dtype")
def _to_copy(build: Builder, out: torch.Tensor, x: View, *_: Any, device: Any = None, **__: Any) -> View:
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a move to {device}")
    return build.cast(x, out.dtype)


@lowers("prims.convert_element_type")
def _convert(build: Builder, out: torch.Tensor, x: View, dtype: torch.dtype) -> View:
    return build.cast(x, dtype)


@lowers("aten.copy")
def _copy(build: Builder, out: torch.Tensor, target: View, source: View, non_blocking: bool = False) -> View:
    return build.cast(source.expanded(target.size), out.dtype)
