"""Saves tensors with layout, aliasing and autograd state in safetensors files.

Tensors that share a storage are saved as views of one flat array, which preserves aliasing. Dtypes that
safetensors has no name for are saved as bytes; the description has the dtype.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
from typing import Any, Dict, Iterator, List, Tuple

import torch

from ..artifacts import replaced

_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


class TooLarge(Exception):
    """Raised if saving a tensor would exceed the budget."""


class NotPlain(Exception):
    """Raised for a tensor without plain memory: a subclass, sparse, quantized, or on the meta device."""


class Budget:
    """The number of bytes that may still be written."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> None:
        if size > self.left:
            raise TooLarge("more than the limit of captured values")
        self.left -= size


def dtype_name(dtype: Any) -> str:
    return str(dtype).rsplit(".", 1)[-1]


def check_plain(tensor: Any) -> None:
    """Raises :class:`NotPlain` unless the tensor is plain and strided, and no lazy conj or neg view."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise NotPlain("an input is a %s" % type(tensor).__name__)
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        raise NotPlain("an input has no plain strided memory")
    if tensor.is_conj() or tensor.is_neg():
        raise NotPlain("an input is a lazily conjugated or negated view")


def extent(tensor: Any) -> Tuple[int, int]:
    """Returns the tensor's byte range ``(start, end)`` within its storage."""
    item = tensor.element_size()
    start = tensor.storage_offset()
    if tensor.numel() == 0:
        return start * item, start * item
    last = start + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return start * item, (last + 1) * item


def storage_bytes(tensor: Any, start: int, end: int) -> Any:
    """Copies the bytes ``start`` to ``end`` of the tensor's storage to a flat uint8 tensor on the CPU."""
    with torch.no_grad():
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        raw.set_(tensor.untyped_storage(), start, (end - start,), (1,))
        return raw.to("cpu", copy=True)


class Bundle:
    """Tensors for one safetensors file; adding one raises :class:`TooLarge` beyond the budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._entries: Dict[str, Tuple[str, List[int], Any]] = {}

    def flat(self, name: str, dtype: str, data: Any) -> None:
        """Adds an entry of raw bytes (a flat uint8 tensor) that are elements of ``dtype``."""
        self._budget.take(data.numel())
        known = _NAMES.get(dtype)
        size = data.numel() // getattr(torch, dtype).itemsize if known else data.numel()
        self._entries[name] = (known or "U8", [size], data)

    def values(self, name: str, tensor: Any) -> None:
        """Adds an entry with a tensor's logical values, contiguous."""
        check_plain(tensor)
        self._budget.take(tensor.numel() * tensor.element_size())
        with torch.no_grad():
            plain = tensor.detach().to("cpu", copy=True).contiguous()
        raw = storage_bytes(plain, *extent(plain))
        known = _NAMES.get(dtype_name(tensor.dtype))
        self._entries[name] = (known or "U8", [plain.numel() if known else raw.numel()], raw)

    @property
    def empty(self) -> bool:
        return not self._entries

    def write(self, path: str) -> None:
        """Writes the safetensors file: header length (8 bytes, little-endian), JSON header, data."""
        header: Dict[str, Any] = {}
        offset = 0
        for name, (kind, shape, data) in self._entries.items():
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + data.numel()]}
            offset += data.numel()
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with replaced(path) as stream:
            stream.write(len(text).to_bytes(8, "little"))
            stream.write(text)
            for _, _, data in self._entries.values():
                if data.numel():
                    stream.write(memoryview((ctypes.c_char * data.numel()).from_address(data.data_ptr())))


def save_inputs(names: Any, tensors: Any, bundle: Bundle) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Adds the tensors' storages to the bundle and describes the tensors as views of them.

    Returns ``(storages by name, descriptions by tensor name)``. Raises NotPlain or TooLarge.
    """
    groups: Dict[Any, List[Tuple[str, Any]]] = {}
    for name, tensor in zip(names, tensors):
        check_plain(tensor)
        key = (str(tensor.device), tensor.untyped_storage().data_ptr()) if tensor.numel() else ("", name)
        groups.setdefault(key, []).append((name, tensor))
    storages: Dict[str, Any] = {}
    described: Dict[str, Any] = {}
    for number, members in enumerate(groups.values()):
        storage = "s%d" % number
        extents = [extent(tensor) for _, tensor in members]
        start, end = min(e[0] for e in extents), max(e[1] for e in extents)
        dtypes = {dtype_name(tensor.dtype) for _, tensor in members}
        widest = max((tensor for _, tensor in members), key=lambda t: t.element_size())
        start -= start % widest.element_size()
        end += -(end - start) % widest.element_size()
        end = min(end, widest.untyped_storage().nbytes())
        dtype = dtype_name(members[0][1].dtype) if len(dtypes) == 1 else "uint8"
        if end > start:
            bundle.flat(storage, dtype, storage_bytes(widest, start, end))
        item = getattr(torch, dtype).itemsize
        storages[storage] = {"dtype": dtype, "numel": (end - start) // item, "device": str(widest.device)}
        for name, tensor in members:
            described[name] = {
                "kind": "tensor",
                "storage": storage,
                "dtype": dtype_name(tensor.dtype),
                "size": list(tensor.shape),
                "stride": list(tensor.stride()),
                "offset": tensor.storage_offset() - start // tensor.element_size() if tensor.numel() else 0,
                "requires_grad": bool(tensor.requires_grad),
                "leaf": bool(tensor.is_leaf),
                "parameter": isinstance(tensor, torch.nn.Parameter),
            }
    return storages, described


def copies(tensors: Any) -> Any:
    """Copies tensors, preserving shared storages, strides and autograd flags; raises :class:`NotPlain`."""
    done: Dict[Any, Any] = {}
    result = []
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            result.append(tensor)
            continue
        check_plain(tensor)
        storage = tensor.untyped_storage()
        key = (str(tensor.device), storage.data_ptr()) if tensor.numel() else len(result)
        if key not in done:
            done[key] = storage.clone()
        with torch.no_grad():
            twin = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            twin.set_(done[key], tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.requires_grad:
            twin.requires_grad_(True)
            if not tensor.is_leaf:
                twin = _as_non_leaf(twin)
        result.append(twin)
    return result


def _as_non_leaf(tensor: Any) -> Any:
    with torch.enable_grad():
        return tensor.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).clone()


def describe_value(value: Any, encode: Any) -> Any:
    """Describes a node's value as JSON: metadata of tensors, values of scalars, items of sequences."""
    if isinstance(value, torch.Tensor):
        try:
            stride = [int(s) for s in value.stride()]
        except Exception:
            stride = None
        return {
            "shape": [int(n) for n in value.shape],
            "dtype": dtype_name(value.dtype),
            "stride": stride,
            "device": str(value.device),
            "requires_grad": bool(value.requires_grad),
        }
    if isinstance(value, (tuple, list)):
        return {"items": [describe_value(item, encode) for item in value]}
    if isinstance(value, (bool, int, float, complex)):
        return {"value": encode(value)}
    return None


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Restores the random state of CPU and CUDA and the grad mode at the end of the context."""
    state = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    grad = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if torch.is_grad_enabled() != grad:
            torch.set_grad_enabled(grad)
