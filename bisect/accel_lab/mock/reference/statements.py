"""Reference definitions of kernel statements on whole tensors, independent of the simulator."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

Value = Any
Meaning = Callable[..., Value]


def as_tensor(value: Value) -> torch.Tensor:
    """Returns a value as a tensor; a Python number gets torch's default dtype."""
    return value if isinstance(value, torch.Tensor) else torch.tensor(value, device="cpu")


def _method(name: str) -> Meaning:
    return lambda x: getattr(as_tensor(x), name)()


def _pair(function: Meaning) -> Meaning:
    """Wraps a function of two tensors so that one argument may be a number."""

    def both(a: Value, b: Value) -> Value:
        if isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
            b = torch.full_like(a, b, dtype=torch.result_type(a, b))
        elif isinstance(b, torch.Tensor) and not isinstance(a, torch.Tensor):
            a = torch.full_like(b, a, dtype=torch.result_type(b, a))
        return function(as_tensor(a), as_tensor(b))

    return both


def _where(condition: Value, a: Value, b: Value) -> Value:
    return torch.where(as_tensor(condition), a, b)


def _compare(function: Meaning) -> Meaning:
    return lambda a, b: function(as_tensor(a), b)


UNARY: dict[str, Meaning] = {
    name: _method(name)
    for name in (
        *("neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal"),
        *("sin", "cos", "tan", "tanh", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *("sigmoid", "erf", "erfc", "relu", "floor", "ceil", "round", "trunc", "sign"),
        *("isnan", "isinf", "logical_not", "bitwise_not"),
    )
}
BINARY: dict[str, Meaning] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "fmod": lambda a, b: torch.fmod(as_tensor(a), b),
    "remainder": torch.remainder,
    "floor_div": lambda a, b: torch.floor_divide(as_tensor(a), b),
    "atan2": _pair(torch.atan2),
    "maximum": _pair(torch.maximum),
    "minimum": _pair(torch.minimum),
    "eq": _compare(torch.eq),
    "ne": _compare(torch.ne),
    "lt": _compare(torch.lt),
    "le": _compare(torch.le),
    "gt": _compare(torch.gt),
    "ge": _compare(torch.ge),
    "logical_and": _pair(torch.logical_and),
    "logical_or": _pair(torch.logical_or),
    "logical_xor": _pair(torch.logical_xor),
    "bitwise_and": _pair(torch.bitwise_and),
    "bitwise_or": _pair(torch.bitwise_or),
    "bitwise_xor": _pair(torch.bitwise_xor),
}


def as_number(value: Value) -> Value:
    """Decodes a number of a spec, where ``inf``, ``-inf`` and ``nan`` are strings."""
    return float(value) if isinstance(value, str) else value


def evaluate(op: str, inputs: list[Value], attributes: dict[str, Any]) -> Value:
    """Evaluates an elementwise statement, without the cast to its output's format. Raises KeyError."""
    if op in ("copy", "cast"):
        return inputs[0]
    if op == "clamp":
        low, high = as_number(attributes.get("min")), as_number(attributes.get("max"))
        return torch.clamp(as_tensor(inputs[0]), low, high)
    if op == "where":
        return _where(*inputs)
    if op in UNARY:
        return UNARY[op](*inputs)
    return BINARY[op](*inputs)


def reduce(op: str, rows: torch.Tensor) -> torch.Tensor:
    """Reduces the last dimension; sums and products of halves are computed in fp32. Raises KeyError."""
    if rows.dtype in (torch.float16, torch.bfloat16) and op in ("sum", "prod"):
        rows = rows.float()
    return {
        "sum": lambda: rows.sum(-1),
        "prod": lambda: rows.prod(-1),
        "amax": lambda: rows.amax(-1),
        "amin": lambda: rows.amin(-1),
        "any": lambda: rows.ne(0).any(-1),
        "all": lambda: rows.ne(0).all(-1),
        "argmax": lambda: rows.argmax(-1),
        "argmin": lambda: rows.argmin(-1),
    }[op]()
