"""Rules of the reference front end for convolutions, pooling, and their gradients."""

from __future__ import annotations

from typing import Any

from .builder import Builder, NotNative, Value
from .reduction import reduced
from .rules import format_name, rule

WINDOW = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def _window(a: dict[str, Any]) -> dict[str, Any]:
    return {name: list(a[name]) if isinstance(a[name], (list, tuple)) else a[name] for name in WINDOW}


def _floating(*values: Value | None) -> None:
    for value in values:
        if value is not None and not value.dtype.is_floating_point:
            raise NotNative(f"the window unit does not compute in {value.format}")


@rule("aten.convolution.default")
def _convolution(b: Builder, a: dict[str, Any], out: Any) -> Value:
    _floating(a["input"], a["weight"], a["bias"])
    inputs = {"input": a["input"], "weight": a["weight"]}
    if a["bias"] is not None:
        inputs["bias"] = a["bias"]
    outputs = {"output": (tuple(out.shape), format_name(out.dtype))}
    return b.apply("convolution", "convolution", inputs, outputs, _window(a))[0]


@rule("aten.convolution_backward.default")
def _convolution_backward(b: Builder, a: dict[str, Any], out: Any) -> tuple[Value | None, ...]:
    grad, source, weight = a["grad_output"], a["input"], a["weight"]
    _floating(grad, source, weight)
    window, mask = _window(a), a["output_mask"]
    results: list[Value | None] = [None, None, None]
    if mask[0]:
        attributes = {**window, "input_size": list(source.size)}
        outputs = {"output": (source.size, source.format)}
        inputs = {"grad_output": grad, "weight": weight}
        results[0] = b.apply("convolution", "input_grad", inputs, outputs, attributes)[0]
    if mask[1]:
        attributes = {**window, "weight_size": list(weight.size)}
        outputs = {"output": (weight.size, weight.format)}
        inputs = {"grad_output": grad, "input": source}
        results[1] = b.apply("convolution", "weight_grad", inputs, outputs, attributes)[0]
    if mask[2]:
        dims = [d for d in range(len(grad.size)) if d != 1]
        results[2] = reduced(b, "sum", grad, dims, False)
    return tuple(results)


def _numbers(a: dict[str, Any], *names: str) -> dict[str, Any]:
    """The named arguments of a 2-d window; one-element lists are doubled."""
    found: dict[str, Any] = {}
    for name in names:
        value = a[name]
        if isinstance(value, (list, tuple)):
            value = list(value) * 2 if len(value) == 1 else list(value)
        found[name] = value
    if not found.get("stride", True):
        found["stride"] = found["kernel_size"]
    return found


MAX = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
AVERAGE = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")


@rule("aten.max_pool2d_with_indices.default")
def _max_pool(b: Builder, a: dict[str, Any], out: Any) -> tuple[Value, ...]:
    _floating(a["self"])
    size = tuple(out[0].shape)
    outputs = {"output": (size, a["self"].format), "indices": (size, "int64")}
    return b.apply("pool", "max_pool2d", {"input": a["self"]}, outputs, _numbers(a, *MAX))


@rule("aten.max_pool2d_with_indices_backward.default")
def _max_pool_backward(b: Builder, a: dict[str, Any], out: Any) -> Value:
    _floating(a["self"])
    inputs = {"grad_output": a["grad_output"], "input": a["self"], "indices": a["indices"]}
    outputs = {"output": (tuple(out.shape), format_name(out.dtype))}
    return b.apply("pool", "max_pool2d_backward", inputs, outputs, _numbers(a, *MAX))[0]


def _enter_average(op: str, target: str, backward: bool, names: tuple[str, ...]) -> None:
    @rule(target)
    def lower(b: Builder, a: dict[str, Any], out: Any) -> Value:
        _floating(a["self"])
        inputs = {"input": a["self"]}
        if backward:
            inputs = {"grad_output": a["grad_output"], **inputs}
        outputs = {"output": (tuple(out.shape), format_name(out.dtype))}
        return b.apply("pool", op, inputs, outputs, _numbers(a, *names))[0]


_enter_average("avg_pool2d", "aten.avg_pool2d.default", False, AVERAGE)
_enter_average("avg_pool2d_backward", "aten.avg_pool2d_backward.default", True, AVERAGE)
_enter_average("adaptive_avg_pool2d", "aten._adaptive_avg_pool2d.default", False, ("output_size",))
_enter_average("adaptive_avg_pool2d_backward", "aten._adaptive_avg_pool2d_backward.default", True, ())
