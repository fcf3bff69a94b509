"""A fast test for elements that agree relative to their own magnitude, without conversion to float64.

Most elements of agreeing tensors pass it, at a tenth of the cost of the general rule in float64. The general
rule then checks the remaining elements, such as values near zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .closeness import least_counted, relative_to_size
from .dtypes import Array

#: Supported dtypes, and the integer type of the same size.
_CODES: dict[str, Any] = {"float32": np.int32, "float64": np.int64}
_NONE: Array = np.empty(0, dtype=np.intp)
#: The difference of two numbers is exact if it is at most this fraction of one of them (Sterbenz lemma).
_EXACT = 0.25
#: Safety margin for rounding of the bound itself; elements this close to it go to the general rule.
_MARGIN = 1.0 - 2.0**-20


class CloseValues:
    """Collects the largest errors of elements that differ by at most ``relative`` times their magnitude.

    ``typical_size`` is the typical magnitude of the whole tensor. ``max_abs`` and ``max_ulp`` are exact, and
    ``relative`` up to rounding.
    """

    def __init__(self, dtype: str, relative: float, typical_size: float) -> None:
        self.max_abs, self.relative, self.max_ulp = 0.0, 0.0, 0
        self._dtype, self._typical_size = dtype, typical_size
        self._bound = min(relative, _EXACT) * _MARGIN

    @staticmethod
    def fit(dtype: str, got: Array, want: Array) -> bool:
        """Whether both arrays have a supported dtype."""
        return dtype in _CODES and got.dtype == want.dtype == np.dtype(dtype)

    def rest(self, got: Array, want: Array) -> Array:
        """Returns the sorted indices of two flat arrays that the general rule must check.

        They include NaN, infinities, and zeros of different sign.
        """
        apart = got - want
        np.abs(apart, out=apart)
        size = np.abs(want)
        np.minimum(size, np.finfo(size.dtype).max, out=size)  # makes the bound of infinite elements finite
        steps = got.view(_CODES[self._dtype]) - want.view(_CODES[self._dtype])
        np.abs(steps, out=steps)
        near = apart <= size * self._bound
        near &= steps >= 0  # abs of the smallest integer is negative; that is zeros of different sign
        places: Array = _NONE if near.all() else np.flatnonzero(~near)
        if places.size:
            apart[places], steps[places], size[places] = 0, 0, 1
        most = float(apart.max(initial=0))
        if most > 0:
            self.max_abs = max(self.max_abs, most)
            self.max_ulp = max(self.max_ulp, int(steps.max()))
            # The sum of two magnitudes can overflow; the sum of their halves cannot.
            size *= 0.5
            size += size.dtype.type(self._typical_size / 2)
            if self._typical_size == 0:
                size[size == 0] = 1
            np.divide(apart, size, out=size)
            worst = int(np.argmax(size))
            if apart[worst] <= (least := least_counted(self._dtype, self._typical_size)):
                size[apart <= least] = 0  # as relative_to_size does: a difference below the dtype's range
                worst = int(np.argmax(size))
            at = slice(worst, worst + 1)
            one, two = (values[at].astype(np.float64) for values in (apart, want))
            self.relative = max(self.relative, relative_to_size(one, two, self._dtype, self._typical_size))
        return places
