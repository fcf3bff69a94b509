"""Implements statements of fused programs as torch calls that write into views of the device's bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .context import Call, number

#: An input of a statement: a view, or a Python number.
Value = Any
Function = Callable[..., torch.Tensor]


def _isnan(x: torch.Tensor, **out: Any) -> torch.Tensor:
    return torch.ne(x, x, **out)


def _relu(x: torch.Tensor, **out: Any) -> torch.Tensor:
    return torch.clamp(x, min=0, **out)


UNARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal"),
            *("sin", "cos", "tan", "tanh", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
            *("sigmoid", "erf", "erfc", "floor", "ceil", "round", "trunc", "sign"),
            *("isinf", "logical_not", "bitwise_not"),
        )
    },
    "isnan": _isnan,
    "relu": _relu,
}
BINARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("add", "sub", "mul", "div", "pow", "fmod", "remainder", "atan2", "maximum", "minimum"),
            *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"),
            *("bitwise_and", "bitwise_or", "bitwise_xor"),
        )
    },
    "floor_div": torch.floor_divide,
}


def function_of(op: str, attributes: dict[str, Any]) -> Function | None:
    """Returns the function of an elementwise statement, with its attributes bound; None if unknown."""
    if op == "clamp":
        low, high = number(attributes.get("min")), number(attributes.get("max"))
        return partial(torch.clamp, min=low, max=high)
    if op == "where":
        return torch.where
    return UNARY.get(op) or BINARY.get(op)


def write_calls(function: Function, inputs: Sequence[Value], out: torch.Tensor) -> list[Call]:
    """Returns calls that compute ``out = function(*inputs)`` as in eager, cast to the dtype of ``out``.

    Dtypes are tried on one element; if torch can write directly to ``out``, it does.
    """
    if function is torch.where:
        inputs = [_condition(inputs[0]), *inputs[1:]]
    samples = [_sample(value) if isinstance(value, torch.Tensor) else value for value in inputs]
    try:
        function(*samples)
    except TypeError:
        wrapped = [_wrapped(value, samples) for value in inputs]
        return _write_calls(function, wrapped, out)
    return _write_calls(function, list(inputs), out)


def _write_calls(function: Function, inputs: list[Value], out: torch.Tensor) -> list[Call]:
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    samples = [_sample(value) if isinstance(value, torch.Tensor) else value for value in inputs]
    if not any(value.dim() for value in tensors):
        constant = function(*inputs)
        return [partial(out.copy_, constant)]
    direct = not any(unsafe_overlap(value, out) for value in tensors)
    if direct:
        try:
            function(*samples, out=_sample(out))
        except (RuntimeError, TypeError):
            direct = False
    if direct:
        return [partial(function, *inputs, out=out)]
    return [lambda: out.copy_(function(*inputs))]


def copy_calls(source: Value, out: torch.Tensor) -> list[Call]:
    """Returns calls that copy a tensor or a number to ``out``, cast to its dtype."""
    if not isinstance(source, torch.Tensor):
        return [partial(out.copy_, torch.tensor(source, device="cpu"))]
    if same_view(source, out):
        return []
    if unsafe_overlap(source, out):
        return [lambda: out.copy_(source.clone())]
    return [partial(out.copy_, source)]


def _sample(value: torch.Tensor) -> torch.Tensor:
    """One element of a value's dtype, 1-d unless the value is 0-d, since promotion depends on that."""
    return torch.ones((1,) if value.dim() else (), dtype=value.dtype, device="cpu")


def _wrapped(value: Value, samples: Sequence[Value]) -> Value:
    """A Python number as a 0-d tensor with the same effect on type promotion."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, float):
        among = any(isinstance(sample, torch.Tensor) and sample.is_floating_point() for sample in samples)
        return torch.tensor(value, dtype=torch.float64 if among else torch.float32, device="cpu")
    return torch.tensor(value, device="cpu")


def _condition(value: Value) -> Value:
    if isinstance(value, torch.Tensor) and value.dtype == torch.bool:
        return value
    if isinstance(value, torch.Tensor):
        raise TypeError(f"a condition is bool, not {value.dtype}")
    return torch.tensor(bool(value), device="cpu")


def same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same elements in the same order in memory."""
    return (
        one.data_ptr() == other.data_ptr()
        and one.dtype == other.dtype
        and one.shape == other.shape
        and all(a == b or n == 1 for n, a, b in zip(one.shape, one.stride(), other.stride(), strict=True))
    )


def unsafe_overlap(source: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether writing ``out`` element by element can overwrite unread elements of ``source``."""
    if not source.numel() or not out.numel() or same_view(source, out):
        return False
    one, other = _axes(source), _axes(out)
    start, first = source.data_ptr(), out.data_ptr()
    if start + _reach(source, one) <= first or first + _reach(out, other) <= start:
        return False
    return not any(
        _interleaved(source, out, step) for step in {step for _, step in one} & {step for _, step in other}
    )


def _interleaved(source: torch.Tensor, out: torch.Tensor, period: int) -> bool:
    """Whether both tensors repeat with a period, in bytes, and use disjoint parts of it."""
    one, other = _axes(source), _axes(out)
    if any(step > period and step % period for _, step in one + other):
        return False
    distance = (out.data_ptr() - source.data_ptr()) % period
    within = _reach(source, [axis for axis in one if axis[1] < period])
    beyond = _reach(out, [axis for axis in other if axis[1] < period])
    return distance >= within and distance + beyond <= period


def _axes(value: torch.Tensor) -> list[tuple[int, int]]:
    """(extent, stride in bytes) of the axes with extent above 1 and nonzero stride."""
    word = value.element_size()
    return [(n, step * word) for n, step in zip(value.shape, value.stride(), strict=True) if n > 1 and step]


def _reach(value: torch.Tensor, axes: list[tuple[int, int]]) -> int:
    """The bytes from the first to the end of the last element along some axes."""
    return value.element_size() + sum((n - 1) * step for n, step in axes)
