"""Writes a recording: ``records.jsonl`` with one event a line, and ``tensors.bin`` with tensor values.

Both files are reopened for each event, so that earlier events survive a script that closes all descriptors,
crashes or is killed.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Dict, Optional

import torch

from .values import (
    Empty,
    flat_values,
    has_memory,
    hidden_parts,
    is_plain,
    layout_of,
    raw_bytes,
    scalar,
    statistics,
    text_of,
    type_name,
)

if TYPE_CHECKING:
    from ..shadow.mode import ShadowMode

#: Beyond the cap, a tensor is sampled to at most this many evenly spaced elements.
SAMPLE_ELEMENTS = 4096

# Copies, because the script may replace these functions.
_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid


def _append(path: str, data: Any) -> int:
    """Appends to the file at ``path`` and returns the offset of the data."""
    descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        offset = os.lseek(descriptor, 0, os.SEEK_END)
        view = memoryview(data)
        while len(view):
            view = view[_write(descriptor, view) :]
        return offset
    finally:
        _close(descriptor)


class EventFile:
    """Writes events to ``folder`` with at most ``cap_bytes`` of full tensor values.

    ``shadow`` looks up the float64 reference of a tensor or number. A forked process writes no events.
    """

    def __init__(self, folder: str, cap_bytes: int, shadow: Optional[ShadowMode]) -> None:
        os.makedirs(folder, exist_ok=True)
        self._events = os.path.join(folder, "records.jsonl")
        self._tensors = os.path.join(folder, "tensors.bin")
        self._left = cap_bytes
        self._sample_left = max(1 << 20, cap_bytes // 4)
        self._shadow = shadow
        self._pid = _getpid()

    @property
    def ours(self) -> bool:
        """Whether this process started the recording."""
        return _getpid() == self._pid

    def leaf(self, event: Dict[str, Any], value: Any) -> None:
        """Writes one leaf; one whose values cannot be read is written as its type, with its parts if any."""
        head, parts = dict(event), []
        try:
            event.update(self._describe(value))
            if isinstance(value, torch.Tensor) and event["kind"] == "object":
                parts = [part for part in hidden_parts(value) if is_plain(part[1])]
        except Exception as error:
            note = f"{type(error).__name__}: {text_of(error)}"
            event.update(kind="object", type=type_name(value), note=note)
        self.emit(event)
        for piece, part in parts:
            self.leaf({**head, "path": f"{head['path']}{piece}"}, part)

    def _describe(self, value: Any) -> Dict[str, Any]:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, Empty):
            return {"kind": "object", "type": value.name, "note": "empty"}
        if isinstance(value, enum.Enum):
            return {"kind": "value", "type": type_name(value), "value": value.name}
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
            return {"kind": "value", "type": type_name(value), "value": str(value)}
        if type(value).__module__ == "numpy":
            return self._numpy(value)
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return {"kind": "value", "type": type_name(value), **scalar(value), **self._number(value)}
        return {"kind": "object", "type": type_name(value)}

    def _number(self, value: Any) -> Dict[str, Any]:
        """The float64 reference of a Python number that was read from a tensor, if known."""
        if self._shadow is None or not isinstance(value, (float, complex)):
            return {}
        found = self._shadow.number(value)
        if found is None:
            return {}
        spread = None if found.spread is None else scalar(float(found.spread))["value"]
        return {"exact": {**scalar(found.value), "spread": spread}}

    def _numpy(self, value: Any) -> Dict[str, Any]:
        """Describes a numpy array or scalar without importing numpy."""
        if type(value).__name__ == "ndarray":
            with warnings.catch_warnings():  # torch warns about read-only arrays
                warnings.simplefilter("ignore")
                return {**self._tensor(torch.as_tensor(value)), "type": "numpy.ndarray"}
        return {"kind": "value", "type": type_name(value), **scalar(value.item())}

    def _tensor(self, tensor: torch.Tensor) -> Dict[str, Any]:
        if not is_plain(tensor) or not has_memory(tensor):
            layout = layout_of(tensor)
            name = type_name(tensor) + ("" if layout == "strided" else f" ({layout})")
            return {"kind": "object", "type": name, "dtype": str(tensor.dtype)[6:]}
        flat = flat_values(tensor)
        memory = raw_bytes(flat)
        size = len(memory)
        event: Dict[str, Any] = {
            "kind": "tensor",
            "dtype": str(tensor.dtype)[6:],
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "device": tensor.device.type,
            "requires_grad": tensor.requires_grad,
            "nbytes": size,
            "sha256": hashlib.sha256(memory).hexdigest(),
            "stats": statistics(flat),
        }
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            event["type"] = type_name(tensor)
        extras = {}
        if self._shadow is not None:
            found = {"ref": self._shadow.lookup(tensor), "spread": self._shadow.spread(tensor)}
            extras = {name: flat_values(value) for name, value in found.items() if value is not None}
        self._store(event, flat, memory, extras)
        return event

    def _store(
        self, event: Dict[str, Any], flat: torch.Tensor, memory: Any, extras: Dict[str, torch.Tensor]
    ) -> None:
        """Writes all values within the cap, a sample beyond it, and none beyond the cap of samples."""
        size = len(memory) + sum(len(raw_bytes(extra)) for extra in extras.values())
        if size <= self._left:
            self._left -= size
            event["offset"] = _append(self._tensors, memory)
        else:
            step = max(1, -(-flat.numel() // SAMPLE_ELEMENTS))
            flat = flat[::step].contiguous()
            memory = raw_bytes(flat)
            extras = {name: extra[::step].contiguous() for name, extra in extras.items()}
            size = len(memory) + sum(len(raw_bytes(extra)) for extra in extras.values())
            if size > self._sample_left:
                event["note"] = "beyond the cap: hash and statistics only"
                return
            self._sample_left -= size
            event["note"] = f"beyond the cap: one element in {step} is kept"
            event["sample"] = {"step": step, "offset": _append(self._tensors, memory), "nbytes": len(memory)}
        for name, extra in extras.items():
            event[name] = {
                "offset": _append(self._tensors, raw_bytes(extra)),
                "length": len(raw_bytes(extra)),
                "dtype": str(extra.dtype)[6:],
            }

    def emit(self, event: Dict[str, Any]) -> None:
        if self.ours:
            _append(self._events, (json.dumps(event, allow_nan=False) + "\n").encode("utf-8", "replace"))
