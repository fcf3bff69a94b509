"""The float64 rule on arrays: finds elements whose error exceeds what eager's error allows.

An element's error is compared with eager's largest error among elements of similar magnitude. A single
element of eager may be exact by chance, and over a whole tensor one large or masked value would hide all
others.
"""

from __future__ import annotations

import math

import numpy as np

from .dtypes import Array, least
from .tolerances import ComparisonConfig

#: Size of a group of elements of similar magnitude; both neighbouring groups are considered too.
_GROUP = 64
#: With fewer elements than this, the mean square is not used.
_MANY = 64
#: For a result that is a multiple of eager's: least number of nonzero elements, largest remainder as a
#: fraction of the change, least ``abs(factor - 1)``. A factor closer to 1 may come from a single rounding.
_PROPORTIONAL, _REST, _SCALED = 16, 0.02, 2.0**-6
#: Largest relative error of eager for which its values are meaningful.
_MEANT = 0.25
#: Fewer values than this may all end in zero bits by chance.
_FEW = 4
#: Approximate number of evenly spaced elements from which a large tensor's magnitude is computed.
_SAMPLE = 1 << 18


def equal(g: Array, w: Array, signed_zero: bool) -> Array:
    """Returns where two arrays are equal (complex numbers: in both parts).

    NaN equals NaN. -0.0 equals 0.0 unless ``signed_zero``.
    """
    if g.dtype.kind == "c":
        return equal(g.real, w.real, signed_zero) & equal(g.imag, w.imag, signed_zero)
    same: Array = (g == w) | (np.isnan(g) & np.isnan(w))
    if signed_zero:
        same &= ~((g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w)))
    return same


def error(values: Array, reference: Array) -> Array:
    """Returns the absolute error against the reference; infinite where only one of the two is NaN."""
    distance: Array = np.abs(values - reference)
    distance = np.where(equal(values, reference, False), 0.0, distance)
    return np.where(np.isnan(distance), np.inf, distance)


def allowed(
    want: Array, dtype: str, config: ComparisonConfig, noise: float = 0.0, typical_size: float | None = None
) -> Array:
    """Returns the tolerance of each element without a reference; 0 where eager is not finite.

    It is relative to the tensor's values, with an absolute part of at least ``noise``. ``typical_size`` is
    the typical magnitude of the whole tensor, if ``want`` is only a part of it.
    """
    size = np.abs(want)
    relative = config.relative(dtype)
    absolute = config.atol
    if absolute is None:
        absolute = max(
            relative * (typical(size) if typical_size is None else typical_size), noise, least(dtype)
        )
    tolerance: Array = np.where(np.isfinite(size), relative * size + absolute, 0.0)
    return tolerance


def least_counted(dtype: str, typical_size: float) -> float:
    """Returns the difference that an element must exceed to have a relative error other than 0."""
    return least(dtype) if typical_size > 0 else 0.0


def relative_to_size(apart: Array, want: Array, dtype: str, typical_size: float | None = None) -> float:
    """Returns the largest difference relative to element plus typical magnitude; inf if not finite."""
    size = np.abs(want)
    typical_size = typical(size) if typical_size is None else typical_size
    scale = size + typical_size
    differs = apart > 0
    if not differs.any():
        return 0.0
    beyond_range = apart > least_counted(dtype, typical_size)
    ratio = np.where(differs & beyond_range, apart / np.where(scale > 0, scale, apart), 0.0)
    return float(np.where(np.isfinite(ratio), ratio, np.inf).max())


def exceeds_eager_error(
    ours: Array,
    eagers: Array,
    reference: Array,
    dtype: str,
    config: ComparisonConfig,
    *,
    spread: Array | None = None,
    noise: float = 0.0,
    reach: float = math.inf,
) -> Array:
    """Returns which elements are further from the reference than eager's error, or the spread, allows.

    A single element is compared with eager's largest error among similar elements. The mean square of many is
    compared with eager's too, because a small error of all elements is below the largest error of a few.
    Where eager is not finite and the reference is, a result near the reference counts as correct (by the
    tolerances without a reference). ``noise`` is the absolute error allowed where eager has no correct digit
    and there is no spread. ``reach`` limits the error allowed there for another order of summation, so that
    large errors of half types upstream are not multiplied.
    """
    size = np.abs(reference)
    finite = np.isfinite(size) & np.isfinite(eagers)
    floor = config.floor(dtype) * (size + typical(size)) + least(dtype)
    beyond: Array = ~(finite & (ours <= floor))
    if not beyond.any():
        return beyond
    groups = _MagnitudeGroups(np.where(finite, size, np.inf))
    eagers = np.where(finite, eagers, 0.0)
    worst, mean = groups.greatest(eagers), groups.root_mean_square(eagers)
    if spread is not None:
        drawn = config.spread_factor * groups.root_mean_square(np.where(finite, spread, 0.0))
        worst, mean = np.maximum(worst, drawn), np.maximum(mean, drawn)
    limits = []
    digits = worst < config.no_digits * size
    for measure in (worst, mean):
        more = np.minimum((config.noise_factor - config.factor) * measure, reach)
        absolute = 0.0 if spread is not None else noise
        limits.append(config.factor * measure + floor + np.where(digits, 0.0, more + absolute))
    single = np.where(finite, limits[0], allowed(reference, dtype, config, noise))
    differs: Array = ~(ours <= single)
    if differs.any() or int(finite.sum()) < _MANY:
        return differs
    many = groups.root_mean_square(np.where(finite, ours, 0.0)) > limits[1]
    return beyond & finite & many


def narrowed(got: Array, want: Array, reference: Array, dtype: str, config: ComparisonConfig) -> bool:
    """Whether a float32 result was rounded to a half type and eager's was not.

    The error of that rounding may be within earlier errors of half types, but then all values end in zero
    bits (#179804: a backward pass in bfloat16 where eager's is in float32).
    """
    if dtype != "float32":
        return False
    usable = np.isfinite(got) & np.isfinite(want) & (got != 0) & (want != 0)
    if int(usable.sum()) < _FEW:
        return False
    ours, theirs = _short(got[usable]), _short(want[usable])
    if not ours.all() or 4 * int(theirs.sum()) > theirs.size:
        return False
    size = np.abs(reference)
    floor = config.floor(dtype) * (size + typical(size)) + least(dtype)
    return bool(((np.abs(got - want) > floor) & (np.abs(got - reference) > floor))[usable].any())


def scaled(got: Array, want: Array, reference: Array) -> float | None:
    """Returns the factor if a result is a multiple of eager's that rounding cannot explain, else None.

    With half types, eager's rounding error may exceed the error of the fault. But different roundings do not
    give a multiple of eager's result: a multiple repeats all of eager's roundings.
    """
    usable = np.isfinite(got) & np.isfinite(want) & np.isfinite(reference)
    if int((usable & (want != 0)).sum()) < _PROPORTIONAL or not usable.all():
        return None
    g, w, r = (np.ravel(part) for part in (got, want, reference))
    unit = float(np.abs(w).max())
    g, w, r = g / unit, w / unit, r / unit
    length, eagers = float(np.linalg.norm(w)), float(np.linalg.norm(w - r))
    if eagers > _MEANT * length or float(np.linalg.norm(g - r)) <= eagers:
        return None  # eager's values are noise, or the result is at least as accurate as eager's
    factor = float(np.real(np.vdot(w, g))) / length**2
    off = abs(factor - 1.0)
    rest = float(np.linalg.norm(g - factor * w)) / length
    return factor if off >= _SCALED and rest <= _REST * off else None


def _short(values: Array) -> Array:
    """Which float32 values end in ten or more zero bits, as one in a thousand does by chance."""
    codes = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    short: Array = (codes & np.uint32(0x3FF)) == 0
    return short


def typical(size: Array) -> float:
    """Returns a tensor's typical magnitude: the lower quartile of its nonzero finite values; 0.0 if none.

    A lower quartile, so that a mask of huge values does not dominate.
    """
    if size.size > _SAMPLE:  # a sample gives the quartile accurately enough
        size = size.reshape(-1)[:: size.size // _SAMPLE]
    some = size[np.isfinite(size) & (size > 0)]
    if some.size == 0:
        return 0.0
    return float(np.partition(some, some.size // 4)[some.size // 4])


class _MagnitudeGroups:
    """Aggregates errors over elements of similar magnitude: groups in sorted order, with both neighbours."""

    def __init__(self, size: Array) -> None:
        self._order = np.argsort(size.reshape(-1), kind="stable")
        self._shape = size.shape
        self._count = self._order.size
        self._groups = -(-self._count // _GROUP)

    def greatest(self, errors: Array) -> Array:
        """Returns, for each element, the largest error among elements of similar magnitude."""
        worst = self._grouped(errors).max(axis=1)
        near = worst.copy()
        near[1:] = np.maximum(near[1:], worst[:-1])
        near[:-1] = np.maximum(near[:-1], worst[1:])
        return self._spread_out(near)

    def root_mean_square(self, errors: Array) -> Array:
        """Returns, for each element, the RMS error of elements of similar magnitude."""
        unit = float(errors.max())
        if not np.isfinite(unit) or unit == 0.0:
            return np.full(self._shape, unit)
        total = np.square(self._grouped(errors / unit)).sum(axis=1)  # squares of tiny errors would underflow
        count = np.full(self._groups, float(_GROUP))
        count[-1] = self._count - _GROUP * (self._groups - 1)
        sums, counts = total.copy(), count.copy()
        sums[1:] += total[:-1]
        sums[:-1] += total[1:]
        counts[1:] += count[:-1]
        counts[:-1] += count[1:]
        return self._spread_out(np.sqrt(sums / counts) * unit)

    def _grouped(self, errors: Array) -> Array:
        padded = np.zeros(self._groups * _GROUP)
        padded[: self._count] = errors.reshape(-1)[self._order]
        return padded.reshape(self._groups, _GROUP)

    def _spread_out(self, of_groups: Array) -> Array:
        values = np.empty(self._count)
        values[self._order] = np.repeat(of_groups, _GROUP)[: self._count]
        return values.reshape(self._shape)


def greatest(errors: Array) -> float:
    """Returns the largest error; infinite if one is NaN, 0.0 for an empty array."""
    if errors.size == 0:
        return 0.0
    return float("inf") if np.isnan(errors).any() else float(errors.max())
