"""Defines recorded values, the measures of a comparison, and its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .dtypes import Array
from .tolerances import ComparisonConfig


@dataclass(frozen=True, kw_only=True)
class Record:
    """One recorded value: a tensor with its values, a Python value, or an object.

    If ``sample_step`` is set, ``data`` is a flat sample with every so many-th element. ``bases`` are the base
    types of an exception. ``shares`` is the input or earlier output that an output shares memory with.
    """

    kind: str
    type: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    shares: str = ""
    sha256: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    bases: tuple[str, ...] = ()
    data: Array | None = field(default=None, repr=False)
    sample_step: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of comparing two values.

    ``reason`` is empty or one of shape, dtype, stride, values, nan, value, type, missing, extra, raised.
    Errors are the largest over the tensor; those against the reference are None without one. ``relative`` is
    the largest difference from eager, relative to the element plus the tensor's typical magnitude.
    """

    same: bool
    reason: str = ""
    max_abs_error: float | None = None
    relative: float | None = None
    max_ulp: int | None = None
    error_vs_reference: float | None = None
    eager_error_vs_reference: float | None = None
    first_index: tuple[int, ...] | None = None
    stride_differs: bool = False
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        row = dict(self.__dict__)
        row["first_index"] = list(self.first_index) if self.first_index is not None else None
        for name in ("max_abs_error", "relative", "error_vs_reference", "eager_error_vs_reference"):
            if row[name] is not None and not math.isfinite(row[name]):
                row[name] = repr(row[name])
        return row


SAME = Comparison(same=True)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The reference values and run-wide facts for a comparison.

    ``reference`` is the result of a float64 run of the same computation, ``spread`` how far random rounding
    moved it. ``magnitude`` is the largest value of the whole run, a scale for noise where neither is known;
    if it is None, the configuration's absolute noise applies with a reference, and no noise without one.
    ``half``: the run computed in half types. ``prefilter``: only decide whether a float64 run is needed.
    """

    reference: Array | None = None
    spread: Array | None = None
    magnitude: float | None = None
    half: bool = False
    prefilter: bool = False

    def noise(self, dtype: str, config: ComparisonConfig) -> float:
        """Returns the absolute error that never counts where no spread is known."""
        if self.magnitude is None and self.reference is None:
            return 0.0
        return config.noise(dtype, self.magnitude)

    def reach(self, dtype: str, config: ComparisonConfig) -> float:
        """Returns the largest effect of another summation order; infinite unless half types were used."""
        if self.magnitude is None or not self.half:
            return math.inf
        return config.reach(dtype, self.magnitude)
