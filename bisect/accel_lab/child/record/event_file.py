"""The two files of a recording: one line an event, and the values of its tensors.

Both are opened by path for each event: a script that closes every descriptor, crashes or is killed loses
nothing that was written before.
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

#: Beyond the cap this many evenly spaced elements of a tensor are still kept.
SAMPLE_ELEMENTS = 4096

# The script may replace these; the recorder's own copies stay.
_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid


def _append(path: str, data: Any) -> int:
    """Append to a file, opened anew, and return the offset at which the data begins."""
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
    """Writes ``records.jsonl`` and ``tensors.bin`` in ``folder``; at most ``cap_bytes`` of tensor values.

    ``shadow`` gives the float64 values that belong to a tensor or a number, where there are any. A process
    that was forked off writes nothing.
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
        """Whether this is the process that began the recording."""
        return _getpid() == self._pid

    def leaf(self, event: Dict[str, Any], value: Any) -> None:
        """Write one leaf; what cannot be read as values is written by its type, and by its parts if any."""
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
        """The float64 value of a Python number that was taken out of a tensor."""
        if self._shadow is None or not isinstance(value, (float, complex)):
            return {}
        found = self._shadow.number(value)
        if found is None:
            return {}
        spread = None if found.spread is None else scalar(float(found.spread))["value"]
        return {"exact": {**scalar(found.value), "spread": spread}}

    def _numpy(self, value: Any) -> Dict[str, Any]:
        """An array or scalar that numpy made, read through torch: this module does without numpy."""
        if type(value).__name__ == "ndarray":
            with warnings.catch_warnings():  # torch warns of arrays that cannot be written
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
        """Keep the values whole within the cap, a sample of them beyond it."""
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
