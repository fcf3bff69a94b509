"""What is compared and what comes of it: recorded values, measures, and the result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .dtypes import Array
from .tolerances import ComparisonConfig


@dataclass(frozen=True, kw_only=True)
class Record:
    """One recorded value: a tensor with its values, a Python value, or an object.

    ``sample_step`` says that ``data`` is a flat sample, one element in so many; ``bases`` are the types that
    an exception's type derives from; ``shares`` is what an output has its memory in common with, an input or
    an earlier output of the same call.
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
    """What came of comparing two values.

    ``reason`` is empty or one of shape, dtype, stride, values, nan, value, type, missing, extra, raised.
    The errors are the greatest over the tensor; those against the reference are None without one.
    ``relative`` is the greatest difference from eager, relative to the element and the tensor's own size.
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
    """What a comparison is measured against.

    ``reference`` is the float64 run of the same computation and ``spread`` how far random roundings moved it.
    ``magnitude`` is the greatest value of the whole run, for elements of which neither is known; None takes
    the configuration's own absolute noise where there is a reference, and none where there is not.
    ``half`` says that half types rounded on the way. ``sieve`` asks whether the float64 run has anything to
    decide.
    """

    reference: Array | None = None
    spread: Array | None = None
    magnitude: float | None = None
    half: bool = False
    sieve: bool = False

    def noise(self, dtype: str, config: ComparisonConfig) -> float:
        """The absolute error that is never counted where nothing says what rounding is worth."""
        if self.magnitude is None and self.reference is None:
            return 0.0
        return config.noise(dtype, self.magnitude)

    def reach(self, dtype: str, config: ComparisonConfig) -> float:
        """How far another order of summing moves a result at most."""
        if self.magnitude is None or not self.half:
            return math.inf
        return config.reach(dtype, self.magnitude)
