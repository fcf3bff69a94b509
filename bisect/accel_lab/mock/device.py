"""What the mock device is: its sizes and the number formats that it holds.

The figures are those of a real inference accelerator's public documents (Torch-Spyre): 128-byte sticks, 32
cores, 2 MB of scratchpad a core, a 256 MB span that one core can address.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

STICK_BYTES = 128


@dataclass(frozen=True, kw_only=True)
class Format:
    """One number format of the device: its name in specs, its torch dtype, its word length in bytes."""

    name: str
    torch_dtype: torch.dtype
    word_bytes: int

    @property
    def lanes(self) -> int:
        """Elements in one stick."""
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
#: The half formats; the units add them up in fp32.
HALVES = (torch.float16, torch.bfloat16)
_BY_DTYPE = {entry.torch_dtype: entry for entry in FORMATS.values()}


def format_of(dtype: torch.dtype) -> Format | None:
    """The device's format for a torch dtype, or None where the device has none (float64, complex, ...)."""
    return _BY_DTYPE.get(dtype)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """What the units accumulate in, as eager does: float32 for the half formats, else the dtype itself."""
    return torch.float32 if dtype in HALVES else dtype


@dataclass(frozen=True, kw_only=True)
class Device:
    """The sizes of one device; all of them can be set, so that a limit can be met in a test.

    ``memory_bytes`` is the whole device memory, ``span_bytes`` what one core can address in one kernel,
    ``scratchpad_bytes`` is per core.
    """

    cores: int = 32
    scratchpad_bytes: int = 2 * 1024 * 1024
    span_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 16 * 1024**3
    use_scratchpad: bool = True
    use_cache: bool = True
    poison: bool = True
