"""The mock device's number formats; re-exports its sizes (:mod:`.sizes`)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .sizes import STICK_BYTES, Device


@dataclass(frozen=True, kw_only=True)
class Format:
    """One number format of the device: its name in specs, its torch dtype, its word length in bytes."""

    name: str
    torch_dtype: torch.dtype
    word_bytes: int

    @property
    def lanes(self) -> int:
        """The number of elements in a stick."""
        return STICK_BYTES // self.word_bytes


FORMATS: dict[str, Format] = {
    name: Format(name=name, torch_dtype=dtype, word_bytes=dtype.itemsize)
    for name, dtype in (
        ("fp32", torch.float32),
        ("fp16", torch.float16),
        ("bf16", torch.bfloat16),
        ("int64", torch.int64),
        ("int32", torch.int32),
        ("int16", torch.int16),
        ("int8", torch.int8),
        ("uint8", torch.uint8),
        ("bool", torch.bool),
    )
}
#: The half formats; the units accumulate them in fp32.
HALVES = (torch.float16, torch.bfloat16)
_BY_DTYPE = {entry.torch_dtype: entry for entry in FORMATS.values()}


def format_of(dtype: torch.dtype) -> Format | None:
    """Returns the device's format for a torch dtype, None if it has none (float64, complex, ...)."""
    return _BY_DTYPE.get(dtype)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype that the units accumulate in, as in eager: float32 for halves, else the dtype."""
    return torch.float32 if dtype in HALVES else dtype


__all__ = ["FORMATS", "HALVES", "STICK_BYTES", "Device", "Format", "accumulator", "format_of"]
