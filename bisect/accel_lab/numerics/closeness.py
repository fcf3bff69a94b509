"""The float64 rule on arrays: which elements are further from the reference than eager's error allows.

An element's error is held against eager's, taken as the greatest among elements of like magnitude: at any
one element eager may be exact by luck, and over a whole tensor one large or masked value would hide all
others.
"""

from __future__ import annotations

import numpy as np

from .dtypes import Array
from .tolerances import ComparisonConfig

#: Elements of like magnitude are taken in groups of this many, with both neighbouring groups.
_GROUP = 64


def equal(g: Array, w: Array, signed_zero: bool) -> Array:
    """Equal numbers, infinities of the same sign, and NaN beside NaN; for complex numbers in both parts."""
    if g.dtype.kind == "c":
        return equal(g.real, w.real, signed_zero) & equal(g.imag, w.imag, signed_zero)
    same: Array = (g == w) | (np.isnan(g) & np.isnan(w))
    if signed_zero:
        same &= ~((g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w)))
    return same


def error(values: Array, reference: Array) -> Array:
    """Distance from the reference; infinite where only one of the two is a number."""
    distance: Array = np.abs(values - reference)
    distance = np.where(equal(values, reference, False), 0.0, distance)
    return np.where(np.isnan(distance), np.inf, distance)


def allowed(want: Array, dtype: str, config: ComparisonConfig) -> Array:
    """The tolerance of each element without a reference; nothing is allowed where eager is not finite."""
    size = np.abs(want)
    relative = config.relative(dtype)
    absolute = config.atol
    if absolute is None:
        absolute = max(relative * _typical(size), config.noise(dtype))
    tolerance: Array = np.where(np.isfinite(size), relative * size + absolute, 0.0)
    return tolerance


def further(ours: Array, eagers: Array, reference: Array, dtype: str, config: ComparisonConfig) -> Array:
    """Which elements are further from the reference than eager's error allows.

    Where eager overflowed and the reference did not, a result near the reference is a better one, and no
    difference; near means by the tolerances that hold without a reference.
    """
    size = np.abs(reference)
    finite = np.isfinite(size) & np.isfinite(eagers)
    floor = config.floor(dtype) * (size + _typical(size))
    beyond: Array = ~(finite & (ours <= floor))
    if not beyond.any():
        return beyond
    around = _errors_around(np.where(finite, size, np.inf), np.where(finite, eagers, 0.0))
    digits = around < config.no_digits * size
    factor = np.where(digits, config.factor, config.noise_factor)
    limit = factor * around + floor + np.where(digits, 0.0, config.noise(dtype))
    limit = np.where(finite, limit, allowed(reference, dtype, config))
    return ~(ours <= limit)


def _typical(size: Array) -> float:
    """The tensor's own magnitude: the lower quartile of what is not zero.

    Low, so that a mask of huge values does not make everything else look small.
    """
    some = size[np.isfinite(size) & (size > 0)]
    if some.size == 0:
        return 0.0
    return float(np.partition(some, some.size // 4)[some.size // 4])


def _errors_around(size: Array, errors: Array) -> Array:
    """For each element the greatest error among elements of like magnitude."""
    flat, order = errors.reshape(-1), np.argsort(size.reshape(-1), kind="stable")
    groups = -(-flat.size // _GROUP)
    padded = np.zeros(groups * _GROUP)
    padded[: flat.size] = flat[order]
    worst = padded.reshape(groups, _GROUP).max(axis=1)
    near = worst.copy()
    near[1:] = np.maximum(near[1:], worst[:-1])
    near[:-1] = np.maximum(near[:-1], worst[1:])
    around = np.empty(flat.size)
    around[order] = np.repeat(near, _GROUP)[: flat.size]
    return around.reshape(errors.shape)


def greatest(errors: Array) -> float:
    """The greatest error, infinite where one cannot be told."""
    if errors.size == 0:
        return 0.0
    return float("inf") if np.isnan(errors).any() else float(errors.max())
