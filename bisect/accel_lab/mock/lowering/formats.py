"""Helpers of the lowerings: formats, neutral elements, and the dtypes that one kernel may mix."""

from __future__ import annotations

import torch

from accel_lab.mock.device import FORMATS

Number = bool | int | float

FORMATS_BY_DTYPE = {entry.torch_dtype: name for name, entry in FORMATS.items()}
NEUTRAL_OF_EMPTY: dict[str, Number] = {"sum": 0, "prod": 1, "any": False, "all": True}


def number_for(value: Number, dtype: torch.dtype) -> Number:
    """Converts a number to the Python type (bool, float, int) of ``dtype``."""
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    return int(value)


def fits_one_kernel(one: torch.dtype, other: torch.dtype) -> bool:
    """Whether one strided kernel may mix both dtypes: 8-byte integers and floats may not be mixed."""
    return not any(a.itemsize == 8 and b.is_floating_point for a, b in ((one, other), (other, one)))
