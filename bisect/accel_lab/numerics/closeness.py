"""The float64 rule on arrays: which elements are further from the reference than eager's error allows.

An element's error is held against eager's, taken as the greatest among elements of like magnitude: at any
one element eager may be exact by luck, and over a whole tensor one large or masked value would hide all
others.
"""

from __future__ import annotations

import math

import numpy as np

from .dtypes import Array, least
from .tolerances import ComparisonConfig

#: Elements of like magnitude are taken in groups of this many, with both neighbouring groups.
_GROUP = 64
#: Fewer elements than this have no mean square that says more than the greatest of them.
_MANY = 64
#: A result is in proportion to eager's if so many elements are, but for this part of what the factor changes;
#: a factor nearer to 1 may be one number upstream that was rounded otherwise.
_PROPORTIONAL, _REST, _SCALED = 16, 0.02, 2.0**-6
#: The error of eager, as a part of the whole, up to which its values mean something.
_MEANT = 0.25
#: Fewer values than this may end in zero bits by chance.
_FEW = 4
#: Evenly spaced elements that stand for a large tensor where its own magnitude is computed.
_SAMPLE = 1 << 18


def equal(g: Array, w: Array, signed_zero: bool) -> Array:
    """Equal numbers, infinities of the same sign, and NaN against NaN; for complex numbers in both parts."""
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


def allowed(
    want: Array, dtype: str, config: ComparisonConfig, noise: float = 0.0, usual: float | None = None
) -> Array:
    """The tolerance of each element without a reference; nothing is allowed where eager is not finite.

    It is relative to the tensor's own values, but no less than ``noise``. ``usual`` is the magnitude of the
    whole tensor where ``want`` is a part of it.
    """
    size = np.abs(want)
    relative = config.relative(dtype)
    absolute = config.atol
    if absolute is None:
        absolute = max(relative * (typical(size) if usual is None else usual), noise, least(dtype))
    tolerance: Array = np.where(np.isfinite(size), relative * size + absolute, 0.0)
    return tolerance


def relative_to_size(apart: Array, want: Array, dtype: str, usual: float | None = None) -> float:
    """The greatest difference relative to the element and the tensor's own magnitude; inf if not finite."""
    size = np.abs(want)
    usual = typical(size) if usual is None else usual
    scale = size + usual
    differs = apart > 0
    if not differs.any():
        return 0.0
    beyond_range = apart > (least(dtype) if usual > 0 else 0.0)
    ratio = np.where(differs & beyond_range, apart / np.where(scale > 0, scale, apart), 0.0)
    return float(np.where(np.isfinite(ratio), ratio, np.inf).max())


def further(
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
    """Which elements are further from the reference than eager's error, or the spread, allows.

    Single elements are held to the greatest errors around, and the mean square of many to that of eager's:
    an error of all elements hides below the greatest error of few. Where eager overflowed and the reference
    did not, a result near the reference is a better one, and no difference; near means by the tolerances that
    hold without a reference. ``noise`` is the absolute error allowed where eager has no correct digit and no
    spread says what that is worth; ``reach`` is how far another order of summing moves a result at most, so
    that errors which half types made upstream are not multiplied as that is.
    """
    size = np.abs(reference)
    finite = np.isfinite(size) & np.isfinite(eagers)
    floor = config.floor(dtype) * (size + typical(size)) + least(dtype)
    beyond: Array = ~(finite & (ours <= floor))
    if not beyond.any():
        return beyond
    around = _Around(np.where(finite, size, np.inf))
    eagers = np.where(finite, eagers, 0.0)
    worst, mean = around.greatest(eagers), around.root_mean_square(eagers)
    if spread is not None:
        drawn = config.spread_factor * around.root_mean_square(np.where(finite, spread, 0.0))
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
    many = around.root_mean_square(np.where(finite, ours, 0.0)) > limits[1]
    return beyond & finite & many


def narrowed(got: Array, want: Array, reference: Array, dtype: str, config: ComparisonConfig) -> bool:
    """Whether a float32 result was rounded to a half type on the way out, and eager's was not.

    Its error may be no greater than that which half types made before; that all its values end in zero bits
    gives it away (#179804: a backward pass in bfloat16 where eager's is in float32).
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
    """By what factor a result is eager's, if it is just that and no rounding explains the factor.

    Where half types round, eager's error may be greater than the fault. But roundings that differ do not
    leave a result in proportion to eager's; one that is in proportion repeats all of eager's roundings.
    """
    usable = np.isfinite(got) & np.isfinite(want) & np.isfinite(reference)
    if int((usable & (want != 0)).sum()) < _PROPORTIONAL or not usable.all():
        return None
    g, w, r = (np.ravel(part) for part in (got, want, reference))
    unit = float(np.abs(w).max())
    g, w, r = g / unit, w / unit, r / unit
    length, eagers = float(np.linalg.norm(w)), float(np.linalg.norm(w - r))
    if eagers > _MEANT * length or float(np.linalg.norm(g - r)) <= eagers:
        return None  # eager's is noise, or the worse one
    factor = float(np.real(np.vdot(w, g))) / length**2
    off = abs(factor - 1.0)
    rest = float(np.linalg.norm(g - factor * w)) / length
    return factor if off >= _SCALED and rest <= _REST * off else None


def _short(values: Array) -> Array:
    """Which float32 values end in ten or more zero bits; one in a thousand does by chance."""
    codes = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    short: Array = (codes & np.uint32(0x3FF)) == 0
    return short


def typical(size: Array) -> float:
    """The tensor's own magnitude: the lower quartile of what is not zero.

    Low, so that a mask of huge values does not make everything else look small.
    """
    if size.size > _SAMPLE:  # a quartile of very many is known well enough from some
        size = size.reshape(-1)[:: size.size // _SAMPLE]
    some = size[np.isfinite(size) & (size > 0)]
    if some.size == 0:
        return 0.0
    return float(np.partition(some, some.size // 4)[some.size // 4])


class _Around:
    """Elements of like magnitude: sorted by it and taken in groups, each with both neighbours."""

    def __init__(self, size: Array) -> None:
        self._order = np.argsort(size.reshape(-1), kind="stable")
        self._shape = size.shape
        self._count = self._order.size
        self._groups = -(-self._count // _GROUP)

    def greatest(self, errors: Array) -> Array:
        """For each element the greatest error around it."""
        worst = self._grouped(errors).max(axis=1)
        near = worst.copy()
        near[1:] = np.maximum(near[1:], worst[:-1])
        near[:-1] = np.maximum(near[:-1], worst[1:])
        return self._spread_out(near)

    def root_mean_square(self, errors: Array) -> Array:
        """For each element the root mean square of the errors around it."""
        unit = float(errors.max())
        if not np.isfinite(unit) or unit == 0.0:
            return np.full(self._shape, unit)
        total = np.square(self._grouped(errors / unit)).sum(axis=1)  # squares of tiny errors would vanish
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
    """The greatest error, infinite where one is unknown."""
    if errors.size == 0:
        return 0.0
    return float("inf") if np.isnan(errors).any() else float(errors.max())
