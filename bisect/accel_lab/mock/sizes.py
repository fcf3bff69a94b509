"""The sizes of the mock device; does not import torch.

The defaults are those in a real inference accelerator's public documents (Torch-Spyre): 128-byte sticks, 32
cores, 2 MB of scratchpad per core, a 256 MB span that one core can address.
"""

from __future__ import annotations

from dataclasses import dataclass

STICK_BYTES = 128


def whole_sticks(count: int) -> int:
    """Rounds ``count`` bytes up to whole sticks."""
    return -(-count // STICK_BYTES) * STICK_BYTES


@dataclass(frozen=True, kw_only=True)
class Device:
    """The sizes and switches of one device; tests set small sizes to hit limits.

    ``memory_bytes`` is the whole device memory. ``span_bytes`` is what one core can address in one kernel.
    ``scratchpad_bytes`` is per core. ``poison``: undefined memory reads as NaN or an extreme integer.
    """

    cores: int = 32
    scratchpad_bytes: int = 2 * 1024 * 1024
    span_bytes: int = 256 * 1024 * 1024
    memory_bytes: int = 16 * 1024**3
    use_scratchpad: bool = True
    use_cache: bool = True
    poison: bool = True
