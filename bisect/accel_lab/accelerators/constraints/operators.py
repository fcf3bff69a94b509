"""Canonical names of operators, the same for torch function, method, module and ATen overload.

``torch.relu``, ``Tensor.relu_``, ``torch.nn.functional.relu``, ``nn.ReLU`` and ``aten.relu.default`` are all
``relu``; the convolutions of all ranks are ``convolution``.
"""

from __future__ import annotations

import difflib
import functools
import operator
import re
from typing import Any

import torch

from .values import attribute

_SYNONYMS = {
    "truediv": "div",
    "true_divide": "div",
    "divide": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "concat": "cat",
    "concatenate": "cat",
    "_to_copy": "to",
    "type_as": "to",
    **dict.fromkeys(("double", "float", "half", "bfloat16", "long", "int", "short", "bool", "type"), "to"),
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_dropout": "dropout",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "_native_batch_norm_legit_functional": "batch_norm",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "_batch_norm_with_update": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "_unsafe_view": "view",
    "reshape": "view",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "_prelu_kernel": "prelu",
    "max_pool2d_with_indices": "max_pool2d",
    "linalg_lu_factor_ex": "linalg_lu_factor",
}
_CONVOLUTION = re.compile(
    r"_?(mkldnn_)?(convolution|conv(_transpose|_tbc)?([123]d)?(_input)?)(_overrideable)?"
)
_IN_PLACE_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
_PLACES = ("torch.nn.functional.", "torch.Tensor.", "torch.ops.", "torch._C._nn.", "torch.", "Tensor.", "F.")
_ATEN = re.compile(r"aten(?:\.|::)(\w+?)(?:\.\w+)?")
_CUSTOM = re.compile(r"(\w+)(?:\.|::)(\w+?)(?:\.\w+)?")


def canonical(name: str) -> str:
    """Returns the canonical name for a bare name of a function, a method or an ATen operator."""
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    if name.startswith("i") and name[1:].rstrip("_") in _IN_PLACE_OPERATORS:
        name = name[1:]  # operator.iadd
    if len(name) > 1 and name.endswith("_"):
        name = name.rstrip("_")
    if _CONVOLUTION.fullmatch(name):
        return "convolution"
    return _SYNONYMS.get(name, name)


def canonical_of(target: Any) -> str:
    """Returns the canonical name of a node's target; an empty string if the target has no name."""
    if isinstance(target, str):
        return canonical(target)
    if isinstance(target, torch.nn.Module):
        return canonical(
            re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(target).__name__).lower().replace("re_lu", "relu")
        )
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    if isinstance(target, torch._ops.OpOverloadPacket):
        namespace, _, name = target._qualified_op_name.partition("::")
        return canonical(name) if namespace == "aten" else f"{namespace}.{name}"
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        return ""
    return canonical(name)


def canonical_names_of(node: torch.fx.Node, root: torch.nn.Module) -> tuple[str, ...]:
    """Returns a node's canonical name, then that of the operator it was decomposed from, if different."""
    target: Any = node.target
    if node.op == "call_module":
        target = attribute(root, str(target))
    if str(target) == "with_effects" and len(node.args) > 1:
        target = node.args[1]  # the operator that the effect token orders
    found = [canonical_of(target)]
    original = node.meta.get("original_aten")
    if original is not None and (name := canonical_of(original)) and name not in found:
        found.append(name)
    return tuple(found)


def parse_operator(spec: Any) -> str:
    """Returns the canonical name for a user's name, function, method or overload. Raises ValueError."""
    if not isinstance(spec, str):
        entry = canonical_of(spec) if callable(spec) else ""
        if not entry:
            raise ValueError(
                f"an operator is a name such as 'relu' or 'aten.relu', or a function; not {spec!r}"
            )
        return entry
    text = spec.strip()
    for place in _PLACES:
        text = text.removeprefix(place)
    if match := _ATEN.fullmatch(text):
        text = match[1]
    elif (match := _CUSTOM.fullmatch(text)) and match[1] not in ("linalg", "fft", "special"):
        if hasattr(getattr(torch.ops, match[1]), match[2]):
            return f"{match[1]}.{match[2]}"
    else:
        text = text.replace(".", "_")
    entry = canonical(text)
    if entry in known_names() or hasattr(torch.ops.aten, text) or hasattr(torch.ops.aten, entry):
        return entry
    near = difflib.get_close_matches(entry, known_names(), n=3)
    raise ValueError(
        f"torch has no operator {spec!r}"
        + (f"; there is {', '.join(near)}" if near else "")
        + " (write 'relu', 'aten.relu' or 'namespace::name')"
    )


@functools.cache
def known_names() -> frozenset[str]:
    """Canonical names of all public functions and methods of torch."""
    places = (torch, torch.Tensor, torch.nn.functional, torch._C._nn, operator)
    names = {
        canonical(name) for place in places for name in dir(place) if callable(getattr(place, name, None))
    }
    for family in ("linalg", "fft", "special"):
        names |= {f"{family}_{name}" for name in dir(getattr(torch, family)) if not name.startswith("_")}
    return frozenset(name for name in names if name and not name.startswith("_"))
