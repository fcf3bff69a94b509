"""How far apart two results may be before it counts: the numbers, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.core.record import Record

from .dtypes import epsilon

#: ``(rtol, atol)`` of torch.testing.assert_close, by type. Complex types take those of their parts.
TORCH_DEFAULTS: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}

#: Where no spread is known: the noise of a run in epsilons of its greatest value.
NOISE_EPS = 16.0
#: What another order of summing adds at most to a sum that cancels, in epsilons of a run's greatest value.
REACH_EPS = 256.0

_PART: dict[str, str] = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def part_of(dtype: str) -> str:
    """The real type whose precision a type has."""
    return _PART.get(dtype, dtype)


#: float32: sums of 1e6 numbers in another order differ by about a hundred eps; Inductor's vectorised
#: reductions do. Half types accumulate in float32, so only their own roundings show: a few eps.
#: float64: the reference is itself float64, with the same noise as the result.
_FLOORS = {"float16": 4.0, "bfloat16": 4.0, "float32": 128.0, "float64": 4096.0}
#: torch's defaults compare one operator with another way to compute it; a compiled region is many
#: operators, fused and with sums reordered, so they are widened: tenfold, or fourfold for half types,
#: whose defaults are already several eps.
_SCALES = {"float16": 4.0, "bfloat16": 4.0, "float32": 10.0, "float64": 10.0}


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig(Record):
    """What counts as a difference.

    With a float64 reference an element differs when its error exceeds ``factor`` times eager's own error
    (the greatest among elements of like magnitude) plus a floor of ``floor_eps`` epsilons of the element
    and of the tensor. ``factor`` is 3: two correct roundings of one value have errors of the same
    distribution, and the ratio of the greatest of some dozens of draws stays below 2 in practice, while a
    wrong formula, index or type is off by orders of magnitude. Eager's error may be small by luck, so it is
    taken as no less than ``spread_factor`` times the spread: how far random roundings moved the float64 run.
    Where eager has no correct digit (its error or the spread exceeds ``no_digits`` of the value: a gradient
    whose true value is zero) both results are noise, and ``noise_factor`` applies; where no spread is known
    there, an absolute ``noise_floor`` does, or less where all that the run computed is small.

    Without a reference an element differs beyond ``rtol * (|want| + size)``, where size is the tensor's own
    magnitude: torch.testing's relative tolerances times ``scale``. The sieve, which only decides whether the
    float64 run is asked, takes the narrower of torch.testing's own and the floor.
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
        """The relative error that is never counted, with a reference."""
        part = part_of(dtype)
        return self.floor_eps.get(part, 4.0) * epsilon(dtype)

    def noise(self, dtype: str, magnitude: float | None = None) -> float:
        """The absolute error that is never counted where eager has no correct digit and no spread is known.

        ``magnitude`` is the greatest value of the whole run: its roundings are a few epsilons of that.
        """
        most = min(self.noise_floor, self.noise_floor * epsilon(dtype) / epsilon("float32"))
        return most if magnitude is None else min(most, NOISE_EPS * epsilon(dtype) * magnitude)

    def reach(self, dtype: str, magnitude: float) -> float:
        """How far another order of summing moves a result at most, given the greatest value of the run."""
        return REACH_EPS * epsilon(dtype) * magnitude

    def relative(self, dtype: str) -> float:
        """The relative tolerance without a reference."""
        if self.rtol is not None:
            return self.rtol
        part = part_of(dtype)
        return _torch_relative(dtype) * self.scale.get(part, 2.0)

    def sieve(self, dtype: str) -> float:
        """The relative difference up to which the float64 run need not be asked."""
        return min(_torch_relative(dtype), self.floor(dtype))


def _torch_relative(dtype: str) -> float:
    part = part_of(dtype)
    return TORCH_DEFAULTS[part][0] if part in TORCH_DEFAULTS else epsilon(dtype)
