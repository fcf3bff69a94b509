"""torch's dtypes for numpy: decodes raw bytes, and gives machine epsilon and distances in ulps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A small floating-point format: exponent and mantissa bits, and the meaning of its special codes.

    ``specials`` is ``ieee`` (infinities and NaNs), ``fn`` (no infinity, NaN is all ones) or ``fnuz`` (no
    infinity, no negative zero, whose code is NaN).
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str


_FLOAT8 = {
    "float8_e4m3fn": FloatFormat(exponent=4, mantissa=3, bias=7, specials="fn"),
    "float8_e4m3fnuz": FloatFormat(exponent=4, mantissa=3, bias=8, specials="fnuz"),
    "float8_e5m2": FloatFormat(exponent=5, mantissa=2, bias=15, specials="ieee"),
    "float8_e5m2fnuz": FloatFormat(exponent=5, mantissa=2, bias=16, specials="fnuz"),
}

_NATIVE: dict[str, str] = {
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
    "int8": "<i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "<u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bool": "?",
}

_ITEM_BYTES: dict[str, int] = {
    **{name: np.dtype(code).itemsize for name, code in _NATIVE.items()},
    **dict.fromkeys((*_FLOAT8, "float8_e8m0fnu"), 1),
    "bfloat16": 2,
    "complex32": 4,
}

#: Machine epsilon: the distance from 1 to the next number.
_EPSILON: dict[str, float] = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex32": 2.0**-10,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
    **{name: 2.0**-form.mantissa for name, form in _FLOAT8.items()},
    "float8_e8m0fnu": 1.0,
}


#: Absolute errors up to this do not count: the smallest normal number, because compiled code may flush
#: subnormal numbers to zero. For float16, which is computed in float32: two of its smallest steps.
_LEAST: dict[str, float] = {
    "float16": 2.0**-23,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
    "complex32": 2.0**-23,
    "complex64": 2.0**-126,
    "complex128": 2.0**-1022,
}


def least(dtype: str) -> float:
    """Returns the absolute error that the dtype's range causes in any computation; 0.0 if not known."""
    return _LEAST.get(dtype, 0.0)


def is_floating(dtype: str) -> bool:
    """Whether a dtype is real or complex floating point."""
    return dtype in _EPSILON


def is_complex(dtype: str) -> bool:
    return dtype.startswith("complex")


def epsilon(dtype: str) -> float:
    """Returns the machine epsilon of a floating-point dtype; raises KeyError for another dtype."""
    return _EPSILON[dtype]


def item_bytes(dtype: str) -> int | None:
    """Returns the bytes per element, or None for an unknown dtype."""
    return _ITEM_BYTES.get(dtype)


def decode(data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    """Decodes the bytes of a contiguous tensor; dtypes that numpy lacks become float32 or complex64.

    An unknown dtype becomes a flat array of bytes, to be compared exactly. Raises ValueError if the number of
    bytes does not fit the shape.
    """
    if dtype in _NATIVE:
        return np.frombuffer(data, dtype=_NATIVE[dtype]).reshape(shape)
    if dtype == "bfloat16":
        codes = np.frombuffer(data, dtype="<u2").astype("<u4")
        return (codes << 16).view("<f4").reshape(shape)
    if dtype == "complex32":
        parts = np.frombuffer(data, dtype="<f2").astype("<f4")
        return parts.view("<c8").reshape(shape)
    if dtype in _FLOAT8 or dtype == "float8_e8m0fnu":
        return _table(dtype)[np.frombuffer(data, dtype=np.uint8)].reshape(shape)
    return np.frombuffer(data, dtype=np.uint8)


@functools.cache
def _table(dtype: str) -> Array:
    value: Callable[[int], float] = _scale_of_code if dtype == "float8_e8m0fnu" else _small(_FLOAT8[dtype])
    return np.array([value(code) for code in range(256)], dtype=np.float32)


def _scale_of_code(code: int) -> float:
    return float("nan") if code == 255 else 2.0 ** (code - 127)


def _small(form: FloatFormat) -> Callable[[int], float]:
    def value(code: int) -> float:
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code & 0x7F) >> form.mantissa
        fraction = code & ((1 << form.mantissa) - 1)
        top = exponent == (1 << form.exponent) - 1
        if form.specials == "fnuz" and code == 0x80:
            return float("nan")
        if form.specials == "ieee" and top:
            return float("nan") if fraction else sign * float("inf")
        if form.specials == "fn" and top and fraction == (1 << form.mantissa) - 1:
            return float("nan")
        if exponent == 0:
            return sign * fraction * 2.0 ** (1 - form.bias - form.mantissa)
        return sign * (1.0 + fraction / (1 << form.mantissa)) * 2.0 ** (exponent - form.bias)

    return value


def ulps_apart(one: Array, two: Array, dtype: str) -> int | None:
    """Returns the largest distance of two arrays in ulps over finite elements; None for other dtypes.

    Supports float16, bfloat16, float32 and float64.
    """
    codes = {"float16": ("<f2", "<i2"), "float32": ("<f4", "<i4"), "float64": ("<f8", "<i8")}
    if dtype == "bfloat16":
        ordered = [
            _ordered((np.asarray(a, "<f4").view("<u4") >> 16).astype("<u2").view("<i2")) for a in (one, two)
        ]
    elif dtype in codes:
        kind, whole = codes[dtype]
        ordered = [_ordered(np.ascontiguousarray(a, dtype=kind).view(whole)) for a in (one, two)]
    else:
        return None
    keep = np.isfinite(one) & np.isfinite(two)
    if not keep.any():
        return 0
    a, b = ordered[0].reshape(keep.shape)[keep], ordered[1].reshape(keep.shape)[keep]
    return int((np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)).max())


def _ordered(codes: Array) -> Array:
    """Converts sign-and-magnitude codes to integers in the order of the numbers."""
    wide = codes.astype(np.int64)
    floor = np.iinfo(codes.dtype).min
    return np.where(wide < 0, floor - wide, wide)
