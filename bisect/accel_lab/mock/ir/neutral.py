"""The neutral element of each reduction, which padding must hold if the reduction reads it."""

from __future__ import annotations

import math

import torch

from accel_lab.mock.device import FORMATS

NEUTRAL = {
    "sum": "zero",
    "any": "zero",
    "prod": "one",
    "all": "one",
    "amax": "lowest",
    "argmax": "lowest",
    "amin": "highest",
    "argmin": "highest",
}


def neutral_number(neutral: str, format_name: str) -> float | int | bool:
    """Returns the number of a padding state in a format."""
    dtype = FORMATS[format_name].torch_dtype
    if neutral in ("zero", "one"):
        return int(neutral == "one")
    if dtype.is_floating_point:
        return -math.inf if neutral == "lowest" else math.inf
    if dtype == torch.bool:
        return neutral == "highest"
    limits = torch.iinfo(dtype)
    return int(limits.min if neutral == "lowest" else limits.max)
