"""The sliding-window unit: convolutions, their gradients, and pooling, on logical tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .context import Call, Context, logical_plan, wide

aten = torch.ops.aten


def convolution_plan(context: Context) -> list[Call]:
    """Returns the plan of a convolution or one of its gradients. Raises SpecError."""
    spec = context.spec
    dtype = wide(spec.outputs[0].layout)
    loads = [context.load(operand, dtype) for operand in spec.inputs]
    window = (
        list(context.attribute("stride")),
        list(context.attribute("padding")),
        list(context.attribute("dilation")),
        bool(context.attribute("transposed", False)),
        list(context.attribute("output_padding", [0] * len(context.attribute("stride")))),
        int(context.attribute("groups", 1)),
    )
    if spec.op == "convolution":

        def forward(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
            return aten.convolution.default(source, weight, bias, *window)

        return logical_plan(context, forward, loads)
    if spec.op == "input_grad":
        size = list(context.attribute("input_size", spec.outputs[0].layout.size))

        def input_grad(grad: torch.Tensor, weight: torch.Tensor) -> Any:
            source = grad.new_empty(1).expand(size)
            return aten.convolution_backward.default(
                grad, source, weight, None, *window, [True, False, False]
            )[0]

        return logical_plan(context, input_grad, loads)
    if spec.op == "weight_grad":
        size = list(context.attribute("weight_size", spec.outputs[0].layout.size))

        def weight_grad(grad: torch.Tensor, source: torch.Tensor) -> Any:
            weight = grad.new_empty(1).expand(size)
            return aten.convolution_backward.default(
                grad, source, weight, None, *window, [False, True, False]
            )[1]

        return logical_plan(context, weight_grad, loads)
    raise context.refuse("vocabulary", f"no convolution is called {spec.op!r}")


def pool_plan(context: Context) -> list[Call]:
    """Returns the plan of a pooling kernel; max pooling's second output is the indices. Raises SpecError."""
    spec = context.spec
    loads = [context.load(operand, wide(operand.layout)) for operand in spec.inputs]
    make = POOLS.get(spec.op)
    if make is None:
        raise context.refuse("vocabulary", f"no pooling is called {spec.op!r}")
    function = make(context.attribute)
    outputs = len(spec.outputs)
    if spec.op == "max_pool2d" and outputs == 1:
        return logical_plan(context, lambda x: function(x)[0], loads)
    return logical_plan(context, function, loads)


def _max_window(attribute: Callable[..., Any]) -> tuple[Any, ...]:
    kernel = list(attribute("kernel_size"))
    return (
        kernel,
        list(attribute("stride") or kernel),
        list(attribute("padding", [0, 0])),
        list(attribute("dilation", [1, 1])),
        bool(attribute("ceil_mode", False)),
    )


def _average_window(attribute: Callable[..., Any]) -> tuple[Any, ...]:
    kernel = list(attribute("kernel_size"))
    return (
        kernel,
        list(attribute("stride") or kernel),
        list(attribute("padding", [0, 0])),
        bool(attribute("ceil_mode", False)),
        bool(attribute("count_include_pad", True)),
        attribute("divisor_override"),
    )


def _max_pool(attribute: Callable[..., Any]) -> Callable[..., Any]:
    window = _max_window(attribute)
    return lambda x: aten.max_pool2d_with_indices.default(x, *window)


def _max_pool_backward(attribute: Callable[..., Any]) -> Callable[..., Any]:
    window = _max_window(attribute)

    def backward(grad: torch.Tensor, source: torch.Tensor, indices: torch.Tensor) -> Any:
        return aten.max_pool2d_with_indices_backward.default(grad, source, *window, indices)

    return backward


def _average_pool(attribute: Callable[..., Any]) -> Callable[..., Any]:
    window = _average_window(attribute)
    return lambda x: aten.avg_pool2d.default(x, *window)


def _average_pool_backward(attribute: Callable[..., Any]) -> Callable[..., Any]:
    """Operands as in ATen: grad_output, input."""
    window = _average_window(attribute)
    return lambda grad, source: aten.avg_pool2d_backward.default(grad, source, *window)


def _adaptive_pool(attribute: Callable[..., Any]) -> Callable[..., Any]:
    size = list(attribute("output_size"))
    return lambda x: aten._adaptive_avg_pool2d.default(x, size)


def _adaptive_pool_backward(attribute: Callable[..., Any]) -> Callable[..., Any]:
    """Operands as in ATen: grad_output, input."""
    return aten._adaptive_avg_pool2d_backward.default


POOLS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "max_pool2d": _max_pool,
    "max_pool2d_backward": _max_pool_backward,
    "avg_pool2d": _average_pool,
    "avg_pool2d_backward": _average_pool_backward,
    "adaptive_avg_pool2d": _adaptive_pool,
    "adaptive_avg_pool2d_backward": _adaptive_pool_backward,
}
