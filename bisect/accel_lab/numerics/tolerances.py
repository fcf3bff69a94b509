"""Defines the tolerances of comparisons, with the reason for each number."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.core.record import Record

from .dtypes import epsilon

#: ``(rtol, atol)`` of torch.testing.assert_close by dtype; complex dtypes use those of their parts.
TORCH_DEFAULTS: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}

#: Noise of a run without a known spread, in epsilons of its largest value.
NOISE_EPS = 16.0
#: Largest effect of another summation order on a sum that cancels, in epsilons of a run's largest value.
REACH_EPS = 256.0

_PART: dict[str, str] = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def part_of(dtype: str) -> str:
    """Returns the dtype of a complex dtype's parts; another dtype is returned unchanged."""
    return _PART.get(dtype, dtype)


#: Floors in epsilons. float32: sums of 1e6 numbers in another order, as in Inductor's vectorized reductions,
#: differ by about 100 eps. Half types accumulate in float32, so only their own rounding shows: a few eps.
#: float64: the reference is float64 too, with the same noise as the result.
_FLOORS = {"float16": 4.0, "bfloat16": 4.0, "float32": 128.0, "float64": 4096.0}
#: Factors on torch's defaults, which are meant for one operator. A compiled region has many, fused and with
#: reordered sums: tenfold, or fourfold for half types, whose defaults are already several eps.
_SCALES = {"float16": 4.0, "bfloat16": 4.0, "float32": 10.0, "float64": 10.0}


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig(Record):
    """Defines what counts as a difference.

    With a float64 reference, an element differs if its error exceeds ``factor`` times eager's error (the
    largest among elements of similar magnitude) plus a floor of ``floor_eps`` epsilons of the element and of
    the tensor. ``factor`` is 3: two correct roundings of a value have equally distributed errors, and the
    ratio of the largest of some dozens of draws stays below 2 in practice, while a wrong formula, index or
    dtype is off by orders of magnitude. Eager's error may be small by chance, so it counts as at least
    ``spread_factor`` times the spread, which is how far random rounding moved the float64 run. If eager has
    no correct digit (its error or the spread exceeds ``no_digits`` of the value, as for a gradient that is
    truly zero), both results are noise and ``noise_factor`` replaces ``factor``. Without a spread, an
    absolute ``noise_floor`` is added there, or less if all values of the run are small.

    Without a reference, an element differs beyond ``rtol * (|want| + size)``, where ``size`` is the typical
    magnitude of the tensor and the default ``rtol`` is that of torch.testing times ``scale``. The prefilter,
    which only decides whether a float64 run is needed, uses the smaller of torch.testing's ``rtol`` and the
    floor. ``signed_zero`` and ``strides`` make -0.0 and strides count.
    """

    factor: float = 3.0
    spread_factor: float = 1.5
    noise_factor: float = 30.0
    no_digits: float = 0.05
    noise_floor: float = 1e-6
    floor_eps: dict[str, float] = field(default_factory=_FLOORS.copy)
    scale: dict[str, float] = field(default_factory=_SCALES.copy)
    rtol: float | None = None
    atol: float | None = None
    signed_zero: bool = False
    strides: bool = False

    def floor(self, dtype: str) -> float:
        """Returns the relative error that never counts, with a reference."""
        part = part_of(dtype)
        return self.floor_eps.get(part, 4.0) * epsilon(dtype)

    def noise(self, dtype: str, magnitude: float | None = None) -> float:
        """Returns the absolute error that never counts if eager has no correct digit and no spread is known.

        ``magnitude`` is the largest value of the whole run; rounding errors are a few epsilons of it.
        """
        most = min(self.noise_floor, self.noise_floor * epsilon(dtype) / epsilon("float32"))
        return most if magnitude is None else min(most, NOISE_EPS * epsilon(dtype) * magnitude)

    def reach(self, dtype: str, magnitude: float) -> float:
        """Returns the largest effect of another summation order, given the largest value of the run."""
        return REACH_EPS * epsilon(dtype) * magnitude

    def relative(self, dtype: str) -> float:
        """Returns the relative tolerance without a reference."""
        if self.rtol is not None:
            return self.rtol
        part = part_of(dtype)
        return _torch_relative(dtype) * self.scale.get(part, 2.0)

    def prefilter(self, dtype: str) -> float:
        """Returns the relative difference up to which no float64 run is needed."""
        return min(_torch_relative(dtype), self.floor(dtype))


def _torch_relative(dtype: str) -> float:
    part = part_of(dtype)
    return TORCH_DEFAULTS[part][0] if part in TORCH_DEFAULTS else epsilon(dtype)
