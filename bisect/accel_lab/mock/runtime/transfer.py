"""Transfers tensors between the host and the device's memory, and logs the transfers.

The log (``ACCEL_LAB_DEBUG=1``, or a traced run) has one JSON line for each transfer. It goes to the logger
``accel_lab.mock.transfer`` and to ``transfers.jsonl`` in the folder of the variable
``ACCEL_LAB_MOCK_ARTIFACTS`` and in that of the traced run. Even a graph without kernels, such as a clone,
shows its transfers there.
"""

from __future__ import annotations

import ctypes
import json
import logging
import math
import os
import zlib
from pathlib import Path
from typing import Any

import torch

from accel_lab.mock.faults import active
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.simulator.layout_views import StickViews, fill_padding, stick_views

from .memory import Memory, check_match

DEBUG_VARIABLE = "ACCEL_LAB_DEBUG"
ARTIFACTS_VARIABLE = "ACCEL_LAB_MOCK_ARTIFACTS"
LOG_NAME = "transfers.jsonl"
FIRST_VALUES = 8
#: Folders that get the log of this process's transfers.
_folders: list[str] = []

_log = logging.getLogger("accel_lab.mock.transfer")


def log_transfers(folder: str) -> None:
    """Logs all later transfers to a folder; creates the log, so that it exists even if there are none."""
    if folder and folder not in _folders:
        _folders.append(folder)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, LOG_NAME), "a", encoding="utf-8"):
            pass


def _is_logged() -> bool:
    return bool(_folders) or os.environ.get(DEBUG_VARIABLE) == "1"


def to_device(
    memory: Memory, tensor: torch.Tensor, layout: Layout, address: int, padding: str = "undefined"
) -> None:
    """Copies a host tensor to the device. Raises ValueError if tensor and layout differ in size or dtype."""
    check_match(layout, tensor)
    with torch.inference_mode(False), torch.no_grad():
        source = _as_sent(tensor.detach())
        views = stick_views(memory, layout, address)
        if not active("tail_stick_dropped"):
            views.store(source)
        elif views.whole is not None:
            _whole_only(views).store(source[_whole_part(layout)])
        fill_padding(views, padding, memory.device.poison)
        if _is_logged():
            _record("to_device", tensor, layout, address)


def to_host(memory: Memory, layout: Layout, address: int) -> torch.Tensor:
    """Returns a contiguous host copy of the tensor at a device address."""
    with torch.inference_mode(False), torch.no_grad():
        views = stick_views(memory, layout, address)
        if not active("tail_stick_dropped"):
            value = views.load(layout.number.torch_dtype).contiguous()
        else:
            value = torch.zeros(layout.size, dtype=layout.number.torch_dtype, device="cpu")
            if views.whole is not None:
                value[_whole_part(layout)] = _whole_only(views).load(value.dtype)
        value = _halved_subnormals(value)
        if _is_logged():
            _record("to_host", value, layout, address)
        return value


def _as_sent(tensor: torch.Tensor) -> torch.Tensor:
    """The data that is sent; active faults of this layer change it."""
    if active("storage_offset_ignored") and tensor.storage_offset():
        tensor = tensor.as_strided(tensor.shape, tensor.stride(), 0)
    if active("transposed_transfer_overread") and _transposed(tensor):
        twin = torch.empty(tensor.shape, device="meta").stride()
        tensor = tensor.as_strided(tensor.shape, twin)
    if active("int64_truncated") and tensor.dtype == torch.int64:
        tensor = tensor.to(torch.int32).to(torch.int64)
    return _halved_subnormals(tensor)


def _transposed(tensor: torch.Tensor) -> bool:
    """Whether a tensor is permuted in memory, without broadcasts."""
    strides = [step for extent, step in zip(tensor.shape, tensor.stride(), strict=True) if extent > 1]
    return bool(tensor.numel()) and 0 not in strides and strides != sorted(strides, reverse=True)


def _halved_subnormals(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor; with fault subnormals_halved its fp16 subnormals are halved."""
    if tensor.dtype != torch.float16 or not active("subnormals_halved"):
        return tensor
    small = tensor.abs() < torch.finfo(torch.float16).smallest_normal
    return torch.where(small, tensor / 2, tensor)


def _whole_only(views: StickViews) -> StickViews:
    """The views restricted to full sticks."""
    layout = views.layout
    size = list(layout.size)
    size[layout.order[-1]] = layout.valid // layout.lanes * layout.lanes
    cut = Layout(size=tuple(size), order=layout.order, format=layout.format)
    return StickViews(layout=cut, whole=views.whole, tail=None, padding=None)


def _whole_part(layout: Layout) -> tuple[slice, ...]:
    """The index of the part of a logical tensor that fills full sticks."""
    end = layout.valid // layout.lanes * layout.lanes
    return tuple(slice(0, end if d == layout.stick_dim else None) for d in range(len(layout.size)))


def checksum(tensor: torch.Tensor) -> str:
    """Returns the CRC-32 of a host tensor's elements in row-major order, as eight hex digits."""
    dense = tensor.detach().contiguous()
    data = ctypes.string_at(dense.data_ptr(), dense.numel() * dense.element_size()) if dense.numel() else b""
    return f"{zlib.crc32(data):08x}"


def _record(direction: str, tensor: torch.Tensor, layout: Layout, address: int) -> None:
    entry: dict[str, Any] = {
        "transfer": direction,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "address": address,
        "layout": layout.to_json(),
        "bytes": layout.bytes,
        "checksum": checksum(tensor),
        "first": [_number(value) for value in tensor.detach().reshape(-1)[:FIRST_VALUES].tolist()],
    }
    line = json.dumps(entry)
    _log.info("%s", line)
    for folder in filter(None, dict.fromkeys([os.environ.get(ARTIFACTS_VARIABLE), *_folders])):
        path = Path(folder, LOG_NAME)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _number(value: float | int | bool) -> float | int | bool | str:
    """A number for JSON; non-finite ones as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
