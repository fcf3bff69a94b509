"""Lowerings to the convolution and pooling units, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from accel_lab.mock.ir.loop_ir import View

from .builder import Builder, Unsupported, lowers

Ints = Sequence[int]


def _convolution_attributes(
    stride: Ints, padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int
) -> dict[str, Any]:
    return {
        "stride": list(stride),
        "padding": list(padding),
        "dilation": list(dilation),
        "transposed": transposed,
        "output_padding": list(output_padding),
        "groups": groups,
    }


def _same_dtypes(build: Builder, *views: View | None) -> None:
    dtypes = {build.dtype(view) for view in views if view is not None}
    if len(dtypes) != 1 or not next(iter(dtypes)).is_floating_point:
        raise Unsupported(f"a convolution of {' and '.join(sorted(map(str, dtypes)))}")


@lowers("aten.convolution")
def _convolution(
    build: Builder,
    out: torch.Tensor,
    x: View,
    weight: View,
    bias: View | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> View:
    _same_dtypes(build, x, weight, bias)
    reads = {"input": x, "weight": weight}
    if bias is not None:
        reads["bias"] = bias
    attributes = _convolution_attributes(stride, padding, dilation, transposed, output_padding, groups)
    return build.unit("convolution", "convolution", reads, out.shape, out.dtype, attributes)


@lowers("aten.convolution_backward")
def _convolution_backward(
    build: Builder,
    out: Any,
    gradient: View,
    x: View,
    weight: View,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[View | None, View | None, View | None]:
    _same_dtypes(build, gradient, x, weight)
    attributes = _convolution_attributes(stride, padding, dilation, transposed, output_padding, groups)
    dtype = build.dtype(gradient)
    to_input = to_weight = to_bias = None
    if wanted[0]:
        to_input = build.unit(
            "convolution",
            "input_grad",
            {"grad_output": gradient, "weight": weight},
            x.size,
            dtype,
            {**attributes, "input_size": list(x.size)},
        )
    if wanted[1]:
        to_weight = build.unit(
            "convolution",
            "weight_grad",
            {"grad_output": gradient, "input": x},
            weight.size,
            dtype,
            {**attributes, "weight_size": list(weight.size)},
        )
    if wanted[2]:
        axes = [0, *range(2, len(gradient.size))]
        to_bias = build.reduce("sum", gradient, axes, False, dtype)
    return to_input, to_weight, to_bias


def _pair(value: Ints | int, otherwise: Ints | None = None) -> list[int]:
    if isinstance(value, int):
        return [value, value]
    numbers = list(value) if value else list(otherwise or ())
    return numbers * 2 if len(numbers) == 1 else numbers


@lowers("aten.max_pool2d_with_indices")
def _max_pool(
    build: Builder,
    out: tuple[torch.Tensor, torch.Tensor],
    x: View,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    ceil_mode: bool = False,
) -> tuple[View, View]:
    if not build.dtype(x).is_floating_point:
        raise Unsupported("the pooling unit has no integers")
    attributes = _max_pool_attributes(kernel_size, stride, padding, dilation, ceil_mode)
    size = tuple(out[0].shape)
    values, indices = build.units(
        "pool",
        "max_pool2d",
        {"input": x},
        {"output": (size, out[0].dtype), "indices": (size, out[1].dtype)},
        attributes,
    )
    return values, indices


def _max_pool_attributes(
    kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> dict[str, Any]:
    return {
        "kernel_size": _pair(kernel_size),
        "stride": _pair(stride, _pair(kernel_size)),
        "padding": _pair(padding),
        "dilation": _pair(dilation),
        "ceil_mode": ceil_mode,
    }


@lowers("aten.max_pool2d_with_indices_backward")
def _max_pool_backward(
    build: Builder,
    out: torch.Tensor,
    gradient: View,
    x: View,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: View,
) -> View:
    attributes = _max_pool_attributes(kernel_size, stride, padding, dilation, ceil_mode)
    reads = {"grad_output": gradient, "input": x, "indices": indices}
    return build.unit("pool", "max_pool2d_backward", reads, out.shape, out.dtype, attributes)


def _average_attributes(
    kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, with_padding: bool, divisor: int | None
) -> dict[str, Any]:
    return {
        "kernel_size": _pair(kernel_size),
        "stride": _pair(stride, _pair(kernel_size)),
        "padding": _pair(padding),
        "ceil_mode": ceil_mode,
        "count_include_pad": with_padding,
        "divisor_override": divisor,
    }


@lowers("aten.avg_pool2d")
def _average_pool(
    build: Builder,
    out: torch.Tensor,
    x: View,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> View:
    if not out.dtype.is_floating_point:
        raise Unsupported("the pooling unit has no integers")
    attributes = _average_attributes(
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return build.unit("pool", "avg_pool2d", {"input": x}, out.shape, out.dtype, attributes)


@lowers("aten.avg_pool2d_backward")
def _average_pool_backward(
    build: Builder,
    out: torch.Tensor,
    gradient: View,
    x: View,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> View:
    attributes = _average_attributes(
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    reads = {"grad_output": gradient, "input": x}
    return build.unit("pool", "avg_pool2d_backward", reads, out.shape, out.dtype, attributes)


@lowers("aten._adaptive_avg_pool2d")
def _adaptive_pool(build: Builder, out: torch.Tensor, x: View, output_size: Ints) -> View:
    if not out.dtype.is_floating_point:
        raise Unsupported("the pooling unit has no integers")
    attributes = {"output_size": _pair(output_size)}
    return build.unit("pool", "adaptive_avg_pool2d", {"input": x}, out.shape, out.dtype, attributes)


@lowers("aten._adaptive_avg_pool2d_backward")
def _adaptive_pool_backward(build: Builder, out: torch.Tensor, gradient: View, x: View) -> View:
    attributes = {"output_size": list(gradient.size[-2:])}
    reads = {"grad_output": gradient, "input": x}
    return build.unit("pool", "adaptive_avg_pool2d_backward", reads, out.shape, out.dtype, attributes)
