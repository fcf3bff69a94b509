"""The table of the reference front end: which function lowers which ATen overload, with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from accel_lab.mock.device import FORMATS, format_of

from .builder import Builder, Input, NotNative, Value

#: A rule gets the builder, the arguments by the schema's names (tensors as values), and the traced result.
Rule = Callable[[Builder, dict[str, Any], Any], Any]

RULES: dict[str, Rule] = {}
#: Operators that may have an operand without elements and yet a result with some.
EMPTY_OPERANDS: set[str] = set()


def rule(*names: str, empty: bool = False) -> Callable[[Rule], Rule]:
    """Enter a function for overloads such as ``aten.mm.default``."""

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if empty:
                EMPTY_OPERANDS.add(name)
        return function

    return enter


def bind(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the operator's schema, defaults included."""
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
    """The device's name for a dtype. Raises NotNative where it has none."""
    found = format_of(dtype)
    if found is None:
        raise NotNative(f"the device has no format for {dtype}")
    return found.name


def lanes_of(name: str) -> int:
    """Lanes of a stick in a format."""
    return FORMATS[name].lanes


def common_format(inputs: Sequence[Input], *, floating: bool = False) -> str:
    """The format in which torch's promotion would compute; ``floating`` makes integers the default float."""
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
    """Dimensions as a sorted list of non-negative numbers; all of them where none are named."""
    if dims is None or dims == []:
        return list(range(rank))
    listed = [dims] if isinstance(dims, int) else list(dims)
    return sorted({d % rank if rank else 0 for d in listed})


def normal(dim: int, rank: int) -> int:
    """A dimension as a non-negative number."""
    return dim % rank if rank else 0


def opmath(name: str) -> str:
    """The format in which a composite computes: fp32 for the half formats."""
    return "fp32" if name in ("fp16", "bf16") else name
