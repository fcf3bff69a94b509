"""Decides whether a resident graph input is unchanged, so that its transfer can be skipped.

Version counters miss ``tensor.data.add_(1)``. Before a transfer is skipped, the tensor is therefore also
compared by content: the sum of all words, and a sample of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

SAMPLES = 61
Print = tuple[int, tuple[int, ...]]


@dataclass
class Resident:
    """The identity, and maybe fingerprint, of the host tensor that was sent last."""

    key: tuple[Any, ...]
    storage: StorageWeakRef
    print: Print | None = None


class ResidentInputs:
    """The resident inputs of one program."""

    def __init__(self) -> None:
        self._held: dict[int, Resident] = {}

    def clear(self) -> None:
        """Forgets all inputs."""
        self._held.clear()

    def unchanged(self, index: int, tensor: torch.Tensor) -> bool:
        """Whether the device holds this tensor; if not, it is recorded as sent."""
        key = _key(tensor)
        if key is None:
            self._held.pop(index, None)
            return False
        held = self._held.get(index)
        if held is None or held.key != key or held.storage.expired():
            self._held[index] = Resident(key=key, storage=StorageWeakRef(tensor.untyped_storage()))
            return False
        now = fingerprint(tensor)
        if held.print == now:
            return True
        held.print = now
        return False


def _key(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """The properties that identify an unchanged tensor; None if it must always be sent."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_inference() or not _dense(tensor):
        return None
    return (
        tensor.untyped_storage()._cdata,
        tensor.data_ptr(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
        tensor._version,
    )


def _dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements are contiguous in memory, in any dimension order."""
    step = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return bool(tensor.numel())


def fingerprint(tensor: torch.Tensor) -> Print:
    """Returns a fingerprint of a dense tensor: the wrapping sum of its words, and a sample of them."""
    count = tensor.numel() * tensor.element_size()
    line = tensor.detach().as_strided((tensor.numel(),), (1,))
    words = line.view(torch.uint8)
    if (
        count % 8 == 0
        and tensor.data_ptr() % 8 == 0
        and (tensor.storage_offset() * tensor.element_size()) % 8 == 0
    ):
        words = words.view(torch.int64)
    sample = words[:: max(words.numel() // SAMPLES, 1)]
    return int(words.sum(dtype=torch.int64)), tuple(sample.tolist())
