"""Elements that agree by their own magnitude alone, found in the type that they have, without widening them.

Most elements of a pair that agrees are of this kind, and a pass over them in float32 costs a tenth of the
general rule in float64. What is left over, such as values near zero, is for that rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .closeness import relative_to_size
from .dtypes import Array

#: Types that are calculated with as they are stored, and the integers of their size.
_CODES: dict[str, Any] = {"float32": np.int32, "float64": np.int64}
_NONE: Array = np.empty(0, dtype=np.intp)
#: Two numbers no further apart than this part of one of them have a difference that is exact (Sterbenz).
_EXACT = 0.25
#: The bound itself is rounded; an element so near to it is for the general rule.
_MARGIN = 1.0 - 2.0**-20


class CloseValues:
    """Collects the greatest errors of the elements that differ by no more than ``relative`` of themselves.

    ``usual`` is the magnitude of the whole tensor. ``max_abs`` and ``max_ulp`` are exact; ``relative`` is
    that of the element where it is the greatest to within a rounding.
    """

    def __init__(self, dtype: str, relative: float, usual: float) -> None:
        self.max_abs, self.relative, self.max_ulp = 0.0, 0.0, 0
        self._dtype, self._usual = dtype, usual
        self._bound = min(relative, _EXACT) * _MARGIN

    @staticmethod
    def fit(dtype: str, got: Array, want: Array) -> bool:
        """Whether two arrays are of a type that can be looked at in this way."""
        return dtype in _CODES and got.dtype == want.dtype == np.dtype(dtype)

    def rest(self, got: Array, want: Array) -> Array:
        """The places of two flat arrays that the general rule is to look at, in their order.

        NaN and infinities are among them, and zeros of two signs.
        """
        apart = got - want
        np.abs(apart, out=apart)
        size = np.abs(want)
        np.minimum(size, np.finfo(size.dtype).max, out=size)  # no part of infinity is allowed
        steps = got.view(_CODES[self._dtype]) - want.view(_CODES[self._dtype])
        np.abs(steps, out=steps)
        near = apart <= size * self._bound
        near &= steps >= 0  # the least integer has no magnitude: zeros of two signs
        places: Array = _NONE if near.all() else np.flatnonzero(~near)
        if places.size:
            apart[places], steps[places], size[places] = 0, 0, 1
        most = float(apart.max(initial=0))
        if most > 0:
            self.max_abs = max(self.max_abs, most)
            self.max_ulp = max(self.max_ulp, int(steps.max()))
            # The sum of two magnitudes may be beyond the type's range, that of their halves is not.
            size *= 0.5
            size += size.dtype.type(self._usual / 2)
            if self._usual == 0:
                size[size == 0] = 1
            np.divide(apart, size, out=size)
            at = slice(worst := int(np.argmax(size)), worst + 1)
            one, two = (values[at].astype(np.float64) for values in (apart, want))
            self.relative = max(self.relative, relative_to_size(one, two, self._dtype, self._usual))
        return places
