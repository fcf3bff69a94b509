"""Measures the difference of two tensors: errors, ulps, cosine similarity, and the worst elements.

Values are processed in parts to save memory. Errors cover elements that are finite on both sides; NaN,
infinities and negative zeros are counted separately, so that they do not hide the size of other errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from accel_lab.core.record import Record, json_property

from .dtypes import Array, is_complex, is_floating, ulps_apart

#: Elements that are converted to float64 at a time.
PART = 1 << 18
#: Number of worst elements that are listed.
WORST = 5
#: Range of powers of two in the histogram of relative errors; smaller errors are left out.
LEAST_POWER, MOST_POWER = -60, 10


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Maximum, mean and root mean square of an error; None if no element has one."""

    max: float | None = None
    mean: float | None = None
    rms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """One element: its index and both values as exact text."""

    index: tuple[int, ...]
    got: str
    want: str


@dataclass(frozen=True, kw_only=True)
class Special:
    """Counts of a special value: at the same index on both sides, only in ``got``, only in ``want``."""

    both: int = 0
    got: int = 0
    want: int = 0


@dataclass(frozen=True, kw_only=True)
class Metrics(Record):
    """The differences of two tensors of the same shape.

    ``different`` counts unequal elements (NaN equals NaN). ``relative`` errors are relative to the element of
    ``want``; ``zeros`` counts elements that are zero there and nonzero in ``got``. ``ulp`` is the largest
    distance in ulps, None for dtypes without ulps. ``cosine`` is None if a tensor is all zeros. ``histogram``
    has ``(power, count)`` of unequal elements by the power of two of their relative error.
    """

    elements: int
    different: int = 0
    absolute: Errors = Errors()
    relative: Errors = Errors()
    zeros: int = 0
    ulp: int | None = None
    cosine: float | None = None
    nan: Special = Special()
    inf: Special = Special()
    negative_zero: Special = Special()
    first: Place | None = None
    worst: tuple[Place, ...] = ()
    histogram: tuple[tuple[int, int], ...] = ()

    @property
    @json_property(after="histogram")
    def share(self) -> float:
        """The fraction of elements that differ."""
        return self.different / self.elements if self.elements else 0.0


def parts(one: Array, two: Array, size: int = PART) -> Iterator[tuple[int, Array, Array]]:
    """Yields flat parts ``(start, part of one, part of two)`` of two arrays of the same shape."""
    a, b = one.reshape(-1), two.reshape(-1)
    for start in range(0, a.size, size):
        yield start, a[start : start + size], b[start : start + size]


def measure(got: Array, want: Array, dtype: str) -> Metrics:
    """Returns the metrics of two arrays of the same shape; ``dtype`` is the name of their torch dtype.

    Raises ValueError if the shapes differ.
    """
    if got.shape != want.shape:
        raise ValueError(f"shapes {got.shape} and {want.shape}")
    sums = _Sums(dtype=dtype, unit=_greatest(want))
    for start, one, two in parts(got, want):
        sums.add(start, one, two)
    return sums.metrics(got, want)


def _greatest(values: Array) -> float:
    """The largest finite magnitude, or 1.0; a scale with which squares neither overflow nor underflow."""
    most = 0.0
    with np.errstate(all="ignore"):
        for _, part, _ in parts(values, values):
            size = np.abs(part.astype(np.complex128 if part.dtype.kind == "c" else np.float64))
            finite = size[np.isfinite(size)]
            if finite.size:
                most = max(most, float(finite.max()))
    return most or 1.0


@dataclass(kw_only=True)
class _Sums:
    """Accumulates the sums of :func:`measure` over parts."""

    dtype: str
    unit: float
    elements: int = 0
    different: int = 0
    finite: int = 0
    with_ratio: int = 0
    zeros: int = 0
    ulp: int | None = None
    first: int | None = None
    greatest: list[float] = field(default_factory=lambda: [0.0, 0.0])
    totals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    squares: list[float] = field(default_factory=lambda: [0.0, 0.0])
    products: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    special: dict[str, list[int]] = field(
        default_factory=lambda: {"nan": [0, 0, 0], "inf": [0, 0, 0], "negative_zero": [0, 0, 0]}
    )
    worst: list[tuple[float, int]] = field(default_factory=list)
    powers: Array = field(default_factory=lambda: np.zeros(MOST_POWER - LEAST_POWER + 2, dtype=np.int64))

    def add(self, start: int, one: Array, two: Array) -> None:
        """Adds one part that starts at the flat index ``start``."""
        self.elements += one.size
        floats = one.dtype.kind in "fc"
        with np.errstate(all="ignore"):
            wide = np.complex128 if one.dtype.kind == "c" or is_complex(self.dtype) else np.float64
            a, b = one.astype(wide), two.astype(wide)
            differs, usable = one != two, None
            if floats and not math.isfinite(abs(a.sum()) + abs(b.sum())):
                usable = np.isfinite(a) & np.isfinite(b)
                differs &= ~(np.isnan(one) & np.isnan(two))
            if floats:
                self._count_special(one, two, usable is not None)
            count = int(np.count_nonzero(differs))
            if count and self.first is None:
                self.first = start + int(np.argmax(differs))
            self.different += count
            if count:
                self._rank(start, a, b, differs, usable)
                if is_floating(self.dtype):
                    steps = ulps_apart(one, two, self.dtype)
                    self.ulp = steps if self.ulp is None or steps is None else max(self.ulp, steps)
            if usable is not None:
                a, b = np.where(usable, a, 0), np.where(usable, b, 0)
            self._errors(a, b, count > 0, usable)

    def _count_special(self, one: Array, two: Array, odd: bool) -> None:
        zero = (one == 0) | (two == 0)
        pairs = {}
        if zero.any():
            pairs["negative_zero"] = (_negative_zero(one), _negative_zero(two))
        if odd:
            pairs["nan"] = (np.isnan(one), np.isnan(two))
            pairs["inf"] = (np.isinf(one), np.isinf(two))
        for name, (a, b) in pairs.items():
            for turn, found in enumerate((a & b, a & ~b, b & ~a)):
                self.special[name][turn] += int(np.count_nonzero(found))

    def _errors(self, a: Array, b: Array, differ: bool, usable: Array | None) -> None:
        """Adds errors of elements that are finite on both sides; the others are zero in both."""
        unit = self.unit
        self.finite += a.size if usable is None else int(np.count_nonzero(usable))
        a, b = a / unit, b / unit
        for turn, (x, y) in enumerate(((b, a), (a, a), (b, b))):
            self.products[turn] += float(np.real(np.vdot(x, y)))
        size = np.abs(b)
        nonzero = size > 0
        count = int(np.count_nonzero(nonzero))
        self.with_ratio += count
        if not differ:
            return
        apart = np.abs(a - b)
        if count < size.size:
            self.zeros += int(np.count_nonzero(~nonzero & (apart > 0)))
            ratio = np.divide(apart, size, out=np.zeros_like(apart), where=nonzero)
        else:
            ratio = apart / size
        for turn, (errors, scale) in enumerate(((apart, unit), (ratio, 1.0))):
            self.greatest[turn] = max(self.greatest[turn], float(errors.max()) * scale)
            self.totals[turn] += float(errors.sum()) * scale
            self.squares[turn] += float(np.dot(errors, errors))
        # The exponent bits of a float64 give its power of two without a logarithm.
        powers = (ratio.view(np.int64) >> 52) - 1023
        powers = np.clip(powers, LEAST_POWER - 1, MOST_POWER)
        self.powers += np.bincount(powers - (LEAST_POWER - 1), minlength=self.powers.size)

    def _rank(self, start: int, a: Array, b: Array, differs: Array, usable: Array | None) -> None:
        rank = np.abs(a - b)
        if usable is not None:
            rank = np.where(usable, rank, np.where(differs, np.inf, 0.0))
        last = self.worst[-1][0] if len(self.worst) == WORST else 0.0
        if float(rank.max()) <= last:
            return
        count = min(WORST, rank.size)
        top = np.argpartition(rank, -count)[-count:]
        self.worst += [(float(rank[at]), start + int(at)) for at in top if rank[at] > 0]
        self.worst = sorted(self.worst, key=lambda row: (-row[0], row[1]))[:WORST]

    def metrics(self, got: Array, want: Array) -> Metrics:
        """Returns the metrics of all parts added so far."""
        one, two = got.reshape(-1), want.reshape(-1)

        def place(at: int) -> Place:
            index = tuple(int(i) for i in np.unravel_index(at, got.shape))
            return Place(index=index, got=str(one[at]), want=str(two[at]))

        return Metrics(
            elements=self.elements,
            different=self.different,
            absolute=self._of(0, self.finite, self.unit),
            relative=self._of(1, self.with_ratio, 1.0),
            zeros=self.zeros,
            ulp=self.ulp if self.different else 0 if is_floating(self.dtype) else None,
            cosine=self._cosine(),
            **{name: Special(both=n[0], got=n[1], want=n[2]) for name, n in self.special.items()},
            first=None if self.first is None else place(self.first),
            worst=tuple(place(at) for _, at in self.worst),
            histogram=tuple((n + LEAST_POWER - 1, int(c)) for n, c in enumerate(self.powers) if c and n),
        )

    def _of(self, turn: int, count: int, unit: float) -> Errors:
        if count == 0:
            return Errors()
        return Errors(
            max=self.greatest[turn],
            mean=self.totals[turn] / count,
            rms=math.sqrt(self.squares[turn] / count) * unit,
        )

    def _cosine(self) -> float | None:
        length = math.sqrt(self.products[1]) * math.sqrt(self.products[2])
        return max(-1.0, min(1.0, self.products[0] / length)) if length > 0 else None


def _negative_zero(values: Array) -> Array:
    if values.dtype.kind == "c":
        return _negative_zero(values.real) | _negative_zero(values.imag)
    found: Array = (values == 0) & np.signbit(values)
    return found
