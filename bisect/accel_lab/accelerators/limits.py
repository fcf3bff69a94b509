"""The limits of a device, whichever it is: its dtypes, its memory, what its units can reach."""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: Short names that vendors' documents use, besides torch's.
SHORT_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
#: The dtypes that a device is taken to hold unless it says otherwise.
COMMON_DTYPES = frozenset(
    {
        *SHORT_DTYPES.values(),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    }
)


@dataclass(frozen=True, kw_only=True)
class DeviceLimits:
    """The sizes that constraints hold a graph against.

    A device stores the last dimension of a tensor in whole sticks of ``stick_bytes``. ``scratchpad_bytes`` is
    per core, ``span_bytes`` what one core can address in one kernel; None where the device has no such limit.
    """

    memory_bytes: int = 16 * 1024**3
    stick_bytes: int = 128
    cores: int = 1
    scratchpad_bytes: int | None = None
    span_bytes: int | None = None
