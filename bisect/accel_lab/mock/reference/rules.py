"""The rule table of the reference front end: maps ATen overloads to lowering functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from accel_lab.mock.device import FORMATS, format_of

from .builder import Builder, Input, NotNative, Value

#: A rule takes the builder, the arguments by schema name (tensors as values), and the traced result.
Rule = Callable[[Builder, dict[str, Any], Any], Any]

RULES: dict[str, Rule] = {}
#: Operators whose result can have elements although an operand is empty.
EMPTY_OPERANDS: set[str] = set()


def rule(*names: str, empty: bool = False) -> Callable[[Rule], Rule]:
    """Registers a rule for overloads such as ``aten.mm.default``; ``empty`` allows empty operands."""

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if empty:
                EMPTY_OPERANDS.add(name)
        return function

    return enter


def bind(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns a call's arguments by schema name, including defaults."""
    found: dict[str, Any] = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(args) and not argument.kwarg_only:
            found[argument.name] = args[position]
        elif argument.name in kwargs:
            found[argument.name] = kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value if argument.has_default_value() else None
    return found


def format_name(dtype: torch.dtype) -> str:
    """Returns the device's format name for a dtype. Raises NotNative."""
    found = format_of(dtype)
    if found is None:
        raise NotNative(f"the device has no format for {dtype}")
    return found.name


def lanes_of(name: str) -> int:
    """Returns the lanes per stick of a format."""
    return FORMATS[name].lanes


def common_format(inputs: Sequence[Input], *, floating: bool = False) -> str:
    """Returns the format of torch's type promotion; ``floating`` promotes integers to the default float."""
    kinds = ELEMENTWISE_TYPE_PROMOTION_KIND
    samples = [
        torch.empty(value.size, dtype=value.dtype, device="meta") if isinstance(value, Value) else value
        for value in inputs
    ]
    _, dtype = elementwise_dtypes(
        *samples,
        type_promotion_kind=kinds.INT_TO_FLOAT if floating else kinds.DEFAULT,
    )
    return format_name(dtype)


def norm_dims(dims: Any, rank: int) -> list[int]:
    """Normalizes dimensions to a sorted list of non-negative ints; None or [] means all."""
    if dims is None or dims == []:
        return list(range(rank))
    listed = [dims] if isinstance(dims, int) else list(dims)
    return sorted({d % rank if rank else 0 for d in listed})


def normal(dim: int, rank: int) -> int:
    """Normalizes a dimension to a non-negative int."""
    return dim % rank if rank else 0


def opmath(name: str) -> str:
    """Returns the compute format of composite operators: fp32 for halves, else the format itself."""
    return "fp32" if name in ("fp16", "bf16") else name
