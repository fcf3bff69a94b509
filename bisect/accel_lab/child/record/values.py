"""Reads values without side effects: leaves of nested containers, tensor bytes, statistics, random state.

Nothing here draws a random number, builds an autograd graph, or changes a tensor's gradient or version.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import math
import random
import sys
import types
from collections import UserDict
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..torch_internals import dispatch

MAX_DEPTH = 16
MAX_LEAVES = 20_000
MAX_TEXT = 4096

Leaf = Tuple[str, Any]


def type_name(value: Any) -> str:
    """Returns the qualified name of a value's type."""
    return name_of(type(value))


def name_of(kind: type) -> str:
    """Returns a type's qualified name, with its module unless it is built-in."""
    module = getattr(kind, "__module__", "")
    return kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}"


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor's values can be read directly from strided memory."""
    if dispatch.takes_operators_apart(type(tensor)):
        return False
    if tensor.layout is not torch.strided or tensor.device.type in ("meta", "lazy", "vulkan"):
        return False
    if tensor.is_quantized or tensor.is_nested:
        return False
    return not dispatch.is_wrapped(tensor)


#: Attributes that hold the plain tensors of a compressed sparse tensor.
_COMPRESSED = {
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}


def layout_of(tensor: torch.Tensor) -> str:
    """Returns the layout's name: ``strided``, ``sparse_coo``, ..., or ``nested`` or ``quantized``."""
    if tensor.is_nested:
        return "nested"
    return "quantized" if tensor.is_quantized else str(tensor.layout)[len("torch.") :]


def hidden_parts(tensor: torch.Tensor) -> List[Leaf]:
    """Lists ``(path, plain tensor)`` of the parts of a sparse, nested or quantized tensor; else empty."""
    layout = layout_of(tensor)
    value = tensor.detach()
    if layout == "sparse_coo":
        value = value.coalesce()  # sorts by index, because the order may differ between runs
        return [(".indices", value.indices()), (".values", value.values())]
    if layout in _COMPRESSED:
        return [("." + name, getattr(value, name)()) for name in _COMPRESSED[layout]]
    if layout == "nested":
        return [(f"[{index}]", part) for index, part in enumerate(value.unbind())]
    return [(".int_repr", value.int_repr())] if layout == "quantized" else []


#: Devices whose storage holds the elements; devices registered from Python may keep them elsewhere.
_STORED = frozenset({"cpu", "cuda", "xpu", "mps", "hpu", "mtia"})


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the storage is large enough for every element; a storage resized to 0 must not be read."""
    if tensor.numel() == 0 or tensor.device.type not in _STORED:
        return True
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return tensor.untyped_storage().nbytes() >= needed


def flat_values(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the logical values as a contiguous 1-d tensor on the CPU."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)


def raw_bytes(flat: torch.Tensor) -> Any:
    """Returns the memory of a contiguous CPU tensor without a copy; the result keeps the tensor alive.

    Raises ``RuntimeError`` if a non-empty tensor has no memory.
    """
    size = flat.numel() * flat.element_size()
    if size == 0:
        return b""
    address = flat.data_ptr()
    if address == 0:
        raise RuntimeError("the tensor has no memory")
    memory = (ctypes.c_ubyte * size).from_address(address)
    memory.owner = flat
    return memory


def statistics(flat: torch.Tensor) -> Dict[str, Any]:
    """Returns min, max and mean of the finite values, and counts of NaN and infinity; empty if unreadable."""
    if flat.numel() == 0:
        return {"min": None, "max": None, "mean": None, "nan": 0, "inf": 0}
    try:
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)
        if not flat.is_floating_point():
            wide = flat.to(torch.uint8) if flat.dtype is torch.bool else flat
            return {
                "min": int(wide.min()),
                "max": int(wide.max()),
                "mean": float(wide.double().mean()),
                "nan": 0,
                "inf": 0,
            }
        wide = flat if flat.dtype in (torch.float32, torch.float64) else flat.to(torch.float32)
        nan = inf = 0
        total = float(wide.sum(dtype=torch.float64))
        if not math.isfinite(total):
            nan, inf = int(torch.isnan(wide).sum()), int(torch.isinf(wide).sum())
            wide = wide[torch.isfinite(wide)]
            if wide.numel() == 0:
                return {"min": None, "max": None, "mean": None, "nan": nan, "inf": inf}
            total = float(wide.sum(dtype=torch.float64))
        mean = total / wide.numel() if math.isfinite(total) else None
        return {"min": float(wide.min()), "max": float(wide.max()), "mean": mean, "nan": nan, "inf": inf}
    except (RuntimeError, NotImplementedError):
        return {}


def _children(value: Any) -> Optional[List[Leaf]]:
    """The items of a container with their path pieces, or None if it is not a container."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [("." + name, item) for name, item in zip(value._fields, tuple(value))]
    if isinstance(value, (tuple, list)):
        walk = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return [(f"[{index}]", item) for index, item in enumerate(walk)]
    if isinstance(value, dict):
        dotted = dataclasses.is_dataclass(value)  # ModelOutput of transformers is both a dict and a dataclass
        pairs = list(dict.items(value))
        return [(f".{key}" if dotted else f"[{_key(key)}]", item) for key, item in pairs]
    if isinstance(value, (UserDict, types.MappingProxyType)):
        mapping = value.data if isinstance(value, UserDict) else value
        return [(f"[{_key(key)}]", item) for key, item in mapping.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "__dict__", {})
        names = [field.name for field in dataclasses.fields(value)]
        slots = [name for name in names if name not in own and _is_slot(value, name)]
        own = {**own, **{name: getattr(value, name) for name in slots}}
        return [("." + name, own[name]) for name in names if name in own]
    return _registered_children(value)


def _is_slot(value: Any, name: str) -> bool:
    """Whether a field is a filled slot; false for a property, as reading it runs code."""
    return isinstance(getattr(type(value), name, None), types.MemberDescriptorType) and hasattr(value, name)


def _registered_children(value: Any) -> Optional[List[Leaf]]:
    """The items of a container registered with pytree, or the inner tensors of a wrapper subclass."""
    if isinstance(value, torch.Tensor):
        flatten = getattr(type(value), "__tensor_flatten__", None)
        if flatten is None or is_plain(value):
            return None
        return [("." + name, getattr(value, name)) for name in flatten(value)[0]]
    node = getattr(torch.utils._pytree, "SUPPORTED_NODES", {}).get(type(value))
    if node is None:
        return None
    parts, _ = node.flatten_fn(value)
    return [(f"<{index}>", item) for index, item in enumerate(parts)]


def _key(key: Any) -> str:
    return repr(key) if isinstance(key, (str, int, float, bool, type(None), tuple)) else type_name(key)


def leaves(value: Any, path: str) -> Iterator[Leaf]:
    """Yields ``(path, leaf)`` for every leaf of a nested value; paths are the same in each run.

    Stops at cycles, at ``MAX_DEPTH`` and after ``MAX_LEAVES``.
    """
    budget = [MAX_LEAVES]

    def walk(item: Any, where: str, above: Tuple[int, ...]) -> Iterator[Leaf]:
        if budget[0] <= 0:
            return
        parts = None
        if not isinstance(item, (str, bytes, int, float, complex, type(None), torch.nn.Module)):
            try:
                parts = _children(item)
            except Exception:
                parts = None
        if parts is None or id(item) in above or len(above) >= MAX_DEPTH:
            budget[0] -= 1
            yield where, item
            return
        if not parts:
            budget[0] -= 1
            yield where, Empty(type_name(item))
        for piece, part in parts:
            yield from walk(part, where + piece, (*above, id(item)))

    yield from walk(value, path, ())


class Empty:
    """The leaf of an empty container, so that a call that returns one has an event."""

    def __init__(self, name: str) -> None:
        self.name = name


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Turns off autograd, function modes and dispatch modes inside the context."""
    with dispatch.disable_functions(), torch.no_grad(), dispatch.disable_modes():
        yield


def memory_address(value: Any) -> Optional[int]:
    """Returns the address of a tensor's storage; None if it has none or the value is not a tensor."""
    try:
        return value.untyped_storage().data_ptr() or None
    except Exception:  # not a tensor, sparse, a subclass, or a device without addresses
        return None


def text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception:
        return ""


def scalar(value: Any) -> Dict[str, Any]:
    """Returns a Python scalar as JSON; NaN and infinities become text, and long text gets a hash."""
    if isinstance(value, bool) or value is None:
        return {"value": value}
    if isinstance(value, int):
        return {"value": int(value)}
    if isinstance(value, float):
        return {"value": float(value) if math.isfinite(value) else repr(float(value))}
    if isinstance(value, complex):
        return {"value": [repr(value.real), repr(value.imag)]}
    text = str(value)
    if len(text) <= MAX_TEXT:
        return {"value": text}
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return {"value": text[:MAX_TEXT], "sha256": digest}


def random_state() -> Dict[str, Any]:
    """Returns hashes of the states of torch's, Python's, CUDA's and numpy's generators."""
    parts = {"torch": _digest(raw_bytes(torch.get_rng_state()))}
    parts["python"] = _digest(repr(random.getstate()).encode())
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states = [bytes(raw_bytes(state.cpu())) for state in torch.cuda.get_rng_state_all()]
        parts["cuda"] = _digest(b"".join(states))
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        parts["numpy"] = _digest(repr(numpy.random.get_state()).encode())
    return {"sha256": parts["torch"], "parts": parts}


def _digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()
