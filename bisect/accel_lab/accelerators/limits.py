"""Device-neutral limits: dtypes, memory, cores, scratchpad, addressable span."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: Short names that vendors' documents use, besides torch's.
SHORT_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
#: The dtypes that a device supports by default.
COMMON_DTYPES = frozenset(
    {
        *SHORT_DTYPES.values(),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    }
)


@dataclass(frozen=True, kw_only=True)
class DeviceLimits:
    """The size limits of a device, which constraints compare graphs with.

    The last dimension of a tensor is stored in whole sticks of ``stick_bytes``. ``scratchpad_bytes`` is per
    core. ``span_bytes`` is what one core can address in one kernel. Both are None if the device has no such
    limit.
    """

    memory_bytes: int = 16 * 1024**3
    stick_bytes: int = 128
    cores: int = 1
    scratchpad_bytes: int | None = None
    span_bytes: int | None = None
