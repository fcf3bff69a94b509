"""Reads a captured graph's nodes: traced values, sizes, bytes on the device, the user's source line."""

from __future__ import annotations

import linecache
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(torch.__file__) + os.sep
_LIBRARIES = ("site-packages", "dist-packages")
#: Keys of ``node.meta`` that hold a traced value: AOTAutograd's, Dynamo's.
_KEYS = ("val", "example_value")


def traced(node: torch.fx.Node) -> Any:
    """Returns the example value that the tracer stored for a node, or None."""
    for key in _KEYS:
        if key in node.meta:
            return node.meta[key]
    return None


def is_traced(node: torch.fx.Node) -> bool:
    """Whether the tracer stored an example value for a node."""
    return any(key in node.meta for key in _KEYS)


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns all tensors in a pytree."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def number(extent: Any) -> int | None:
    """Returns an extent as int: a SymInt's hint, None if it is data-dependent."""
    if isinstance(extent, int):
        return extent
    hint = getattr(getattr(extent, "node", None), "hint", None)
    return hint if isinstance(hint, int) else None


def extents(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Returns a tensor's size as ints, None if any extent is data-dependent."""
    found = [number(extent) for extent in tensor.shape]
    return None if None in found else tuple(entry for entry in found if entry is not None)


def strides(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Returns a tensor's strides as ints, None if it is not strided or a stride is data-dependent."""
    if tensor.layout != torch.strided:
        return None
    found = [number(step) for step in tensor.stride()]
    return None if None in found else tuple(entry for entry in found if entry is not None)


def size_on_device(size: tuple[int, ...], dtype: torch.dtype, stick_bytes: int) -> int:
    """Returns a tensor's bytes on the device, with the last dimension padded to whole sticks."""
    if not size:
        return stick_bytes
    lanes = max(1, stick_bytes // dtype.itemsize)
    return math.prod(size[:-1]) * -(-size[-1] // lanes) * stick_bytes


def bytes_of(tensor: torch.Tensor, stick_bytes: int) -> int | None:
    """Returns a traced tensor's bytes on the device, None if its size is data-dependent."""
    size = extents(tensor)
    return None if size is None else size_on_device(size, tensor.dtype, stick_bytes)


def storage_of(tensor: torch.Tensor) -> Any:
    """Returns a key that a tensor shares with its views."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError, AttributeError):  # sparse, or a wrapper subclass
        return id(tensor)


def words(dtype: torch.dtype) -> str:
    """Returns a dtype's name without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def amount(count: int) -> str:
    """Formats a number of bytes with a unit (GiB, MiB, KiB)."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def source_of(node: torch.fx.Node) -> str:
    """Returns the user's ``file:line``: the innermost frame outside libraries, else outside torch."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    users = [frame for frame in outside if not any(library in frame[0] for library in _LIBRARIES)]
    for found in (users, outside):
        if found:
            return ":".join(found[-1])
    return ""


def code_of(source: str) -> str:
    """Returns the stripped source text of a ``file:line``."""
    file, _, line = source.rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdecimal() else ""


def graph_modules(gm: torch.fx.GraphModule, prefix: str = "") -> Iterator[tuple[str, torch.fx.GraphModule]]:
    """Yields a graph and, recursively, its higher-order operators' subgraphs, each once, with its path."""
    yield prefix, gm
    seen: set[str] = set()
    for node in gm.graph.nodes:
        if node.op != "get_attr" or str(node.target) in seen:
            continue
        seen.add(str(node.target))
        inner = attribute(gm, str(node.target))
        if isinstance(inner, torch.fx.GraphModule):
            yield from graph_modules(inner, f"{prefix}{node.target}.")


def attribute(root: Any, path: str) -> Any:
    """Resolves a dotted path in a module; None if it does not exist."""
    for part in path.split("."):
        root = getattr(root, part, None)
    return root


def elements(size: Iterable[int]) -> int:
    """Returns the number of elements of a size."""
    return math.prod(size)
