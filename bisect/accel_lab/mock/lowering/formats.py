"""What the lowerings know of numbers and dtypes: formats, neutral elements, and what one kernel may mix."""

from __future__ import annotations

import torch

from accel_lab.mock.device import FORMATS

Number = bool | int | float

FORMATS_BY_DTYPE = {entry.torch_dtype: name for name, entry in FORMATS.items()}
NEUTRAL_OF_EMPTY: dict[str, Number] = {"sum": 0, "prod": 1, "any": False, "all": True}


def number_for(value: Number, dtype: torch.dtype) -> Number:
    """A number as a tensor of ``dtype`` would hold it, as far as Python's types go."""
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    return int(value)


def fits_one_kernel(one: torch.dtype, other: torch.dtype) -> bool:
    """Whether tensors of both dtypes may stand in one strided kernel: not 8-byte integers with floats."""
    return not any(a.itemsize == 8 and b.is_floating_point for a, b in ((one, other), (other, one)))
