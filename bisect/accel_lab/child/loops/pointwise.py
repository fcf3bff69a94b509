"""Maps pointwise operations of the loop IR to torch functions."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype in which a kernel computes values of `dtype`: float32 for smaller floats."""
    return torch.float32 if dtype.is_floating_point and torch.finfo(dtype).bits < 32 else dtype


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Fused multiply-add; float32 is computed in float64 and rounded once."""
    if x.dtype != torch.float32:
        return x * y + z
    return (x.to(torch.float64) * y.to(torch.float64) + z.to(torch.float64)).to(torch.float32)


_SAME_NAME = """
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil copysign cos cosh digamma eq erf erfc erfinv exp exp2 expm1
floor fmod ge gt hypot i0 igamma igammac isinf isnan ldexp le lgamma log log10 log1p log2
logical_and logical_not logical_or logical_xor lt maximum minimum mul ne neg nextafter pow
reciprocal relu round rsqrt sigmoid sign signbit sin sinh sqrt square sub tan tanh trunc
"""
_SPECIAL = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
chebyshev_polynomial_v chebyshev_polynomial_w erfcx gammainc gammaincc hermite_polynomial_h
hermite_polynomial_he i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p log_ndtr
modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr ndtri
scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
spherical_bessel_j0 zeta
"""

ELEMENTWISE: Dict[str, Callable[..., Any]] = {
    name: getattr(torch, name) for name in _SAME_NAME.split() if hasattr(torch, name)
}
ELEMENTWISE.update(
    (name, getattr(torch.special, name)) for name in _SPECIAL.split() if hasattr(torch.special, name)
)
ELEMENTWISE.update(
    {
        "identity": lambda x: x,
        "truediv": torch.true_divide,
        "div_rn": torch.true_divide,
        "int_truediv": lambda x, y: torch.true_divide(x.to(torch.float64), y.to(torch.float64)),
        "mul_rn": torch.mul,
        "dot": torch.mul,
        "fma": _fma,
        "fmaximum": torch.fmax,
        "and_": torch.bitwise_and,
        "or_": torch.bitwise_or,
        "xor": torch.bitwise_xor,
        "lshift": torch.bitwise_left_shift,
        "rshift": torch.bitwise_right_shift,
    }
)
