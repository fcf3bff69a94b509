"""What a node of a captured graph stands for: its tensors, their bytes on the device, the user's line."""

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
#: Keys under which tracers keep a node's value: AOTAutograd's, Dynamo's.
_KEYS = ("val", "example_value")


def traced(node: torch.fx.Node) -> Any:
    """The value that a node had when it was traced, or None."""
    for key in _KEYS:
        if key in node.meta:
            return node.meta[key]
    return None


def is_traced(node: torch.fx.Node) -> bool:
    """Whether the tracer left a value on a node."""
    return any(key in node.meta for key in _KEYS)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a value, however nested."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def number(extent: Any) -> int | None:
    """An extent as a number: a symbol's example value, None where only the data knows it."""
    if isinstance(extent, int):
        return extent
    hint = getattr(getattr(extent, "node", None), "hint", None)
    return hint if isinstance(hint, int) else None


def extents(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """A tensor's size as numbers, None where one of them is not known before it runs."""
    found = [number(extent) for extent in tensor.shape]
    return None if None in found else tuple(entry for entry in found if entry is not None)


def strides(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """A dense tensor's strides as numbers, None where there are none."""
    if tensor.layout != torch.strided:
        return None
    found = [number(step) for step in tensor.stride()]
    return None if None in found else tuple(entry for entry in found if entry is not None)


def size_on_device(size: tuple[int, ...], dtype: torch.dtype, stick_bytes: int) -> int:
    """Bytes of a tensor on the device: whole sticks along the last dimension."""
    if not size:
        return stick_bytes
    lanes = max(1, stick_bytes // dtype.itemsize)
    return math.prod(size[:-1]) * -(-size[-1] // lanes) * stick_bytes


def bytes_of(tensor: torch.Tensor, stick_bytes: int) -> int | None:
    """Bytes of a traced tensor on the device, None where its size is not known before it runs."""
    size = extents(tensor)
    return None if size is None else size_on_device(size, tensor.dtype, stick_bytes)


def storage_of(tensor: torch.Tensor) -> Any:
    """What a tensor shares with its views."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError, AttributeError):  # sparse, or wrapped by another class
        return id(tensor)


def words(dtype: torch.dtype) -> str:
    """A dtype's name as people write it."""
    return str(dtype).removeprefix("torch.")


def amount(count: int) -> str:
    """A number of bytes for a reader."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def source_of(node: torch.fx.Node) -> str:
    """``file:line`` of the user's program: the innermost frame outside libraries, else outside torch."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    users = [frame for frame in outside if not any(library in frame[0] for library in _LIBRARIES)]
    for found in (users, outside):
        if found:
            return ":".join(found[-1])
    return ""


def code_of(source: str) -> str:
    """The text of a ``file:line``."""
    file, _, line = source.rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdecimal() else ""


def graph_modules(gm: torch.fx.GraphModule, prefix: str = "") -> Iterator[tuple[str, torch.fx.GraphModule]]:
    """A graph and those that its higher-order operators run, each once, with the path to it."""
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
    """What a dotted path names in a module, or None."""
    for part in path.split("."):
        root = getattr(root, part, None)
    return root


def elements(size: Iterable[int]) -> int:
    """The number of elements of a size."""
    return math.prod(size)
