"""Compares arrays element by element: exact dtypes, floats with a float64 reference, floats without one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .close_values import CloseValues
from .closeness import (
    allowed,
    equal,
    error,
    exceeds_eager_error,
    greatest,
    narrowed,
    relative_to_size,
    scaled,
    typical,
)
from .dtypes import Array, is_complex, least, ulps_apart
from .metrics import PART, parts
from .tolerances import ComparisonConfig
from .values import Comparison, Measure

#: Elements per call of :class:`CloseValues`, so that the errors fit a core's cache.
_NEAR = 1 << 16


def compare_exactly(got: Array, want: Array) -> Comparison:
    """Compares integers, booleans, and raw bytes of unknown dtypes."""
    differs = got != want
    if not differs.any():
        return Comparison(same=True, max_abs_error=0.0)
    first = _first(differs)
    high, low = np.maximum(got, want)[differs], np.minimum(got, want)[differs]
    if got.dtype == bool:
        apart = 1.0
    else:  # the difference of any two integers fits uint64
        apart = float((high.astype(np.int64).view(np.uint64) - low.astype(np.int64).view(np.uint64)).max())
    if got.dtype == np.uint64:
        apart = float((high - low).max())
    counts = f"{int(differs.sum())} of {got.size} differ, first at {_at(first)}"
    detail = f"{counts}: {got[first]} instead of {want[first]}"
    return Comparison(same=False, reason="values", max_abs_error=apart, first_index=first, detail=detail)


def compare_floats(
    got: Array, want: Array, measure: Measure, dtype: str, config: ComparisonConfig
) -> Comparison:
    if measure.prefilter or measure.reference is None:
        return _compare_in_parts(got, want, measure, dtype, config)
    with np.errstate(all="ignore"):
        wide = _wide(got, dtype)
        g, w, r = (values.astype(wide) for values in (got, want, measure.reference))
        alike = equal(g, w, config.signed_zero)
        apart = _apart(g, w, alike)
        ours, eagers = error(g, r), error(w, r)
        errors: dict[str, Any] = {
            "max_abs_error": float(apart.max()),
            "relative": relative_to_size(apart, w, dtype),
            "max_ulp": ulps_apart(got, want, dtype),
            "error_vs_reference": greatest(ours),
            "eager_error_vs_reference": greatest(eagers),
        }
        noise, reach = measure.noise(dtype, config), measure.reach(dtype, config)
        beyond = exceeds_eager_error(
            ours, eagers, r, dtype, config, spread=measure.spread, noise=noise, reach=reach
        )
        differs, how = ~alike & beyond, ""
        if not differs.any():
            how = _unlike_rounding(g, w, r, dtype, config)
            differs = ~alike if how else differs
        if config.signed_zero:
            differs |= ~alike & (g == 0) & (w == 0)
    if not differs.any():
        return Comparison(same=True, **errors)
    first = _first(differs)
    detail = (
        f"{_counts(int(differs.sum()), differs.size, first, g[first], w[first])} "
        f"(float64: {_show(r[first])}); error {errors['error_vs_reference']:.3g}, "
        f"eager's {errors['eager_error_vs_reference']:.3g}"
    )
    nan = bool((differs & (np.isnan(g) != np.isnan(w))).any())
    return _different(nan, first, f"{detail}; {how}" if how else detail, errors)


def _compare_in_parts(
    got: Array, want: Array, measure: Measure, dtype: str, config: ComparisonConfig
) -> Comparison:
    """Compares floats without a reference; converts one part at a time to float64."""
    wide, count, at, nan = _wide(got, dtype), 0, -1, False
    flat = want.reshape(-1)
    typical_size = typical(np.abs(flat[:: max(1, flat.size // PART)].astype(wide)))
    errors: dict[str, Any] = {"max_abs_error": 0.0, "relative": 0.0, "max_ulp": None}
    close = None
    if CloseValues.fit(dtype, got, want) and not config.signed_zero:
        # Both rules below allow each element at least this relative error.
        close = CloseValues(
            dtype, config.prefilter(dtype) if measure.prefilter else config.relative(dtype), typical_size
        )
    with np.errstate(all="ignore"):
        for start, one, two in parts(got, want, _NEAR if close is not None else PART):
            places = None if close is None else close.rest(one, two)
            if places is not None:
                if not places.size:
                    continue
                one, two = one[places], two[places]
            g, w = one.astype(wide), two.astype(wide)
            alike = equal(g, w, config.signed_zero)
            steps = ulps_apart(one, two, dtype)
            if steps is not None:
                errors["max_ulp"] = max(steps, errors["max_ulp"] or 0)
            if alike.all():
                continue
            apart = _apart(g, w, alike)
            errors["max_abs_error"] = max(errors["max_abs_error"], float(apart.max()))
            errors["relative"] = max(errors["relative"], relative_to_size(apart, w, dtype, typical_size))
            if measure.prefilter:
                differs = ~alike & (apart > _prefilter(w, dtype, config, typical_size))
            else:
                differs = ~alike & (
                    apart > allowed(w, dtype, config, measure.noise(dtype, config), typical_size)
                )
            if config.signed_zero:
                differs |= ~alike & (g == 0) & (w == 0)
            if differs.any():
                place = int(np.argmax(differs))
                at = start + int(place if places is None else places[place]) if at < 0 else at
                count += int(np.count_nonzero(differs))
                nan = nan or bool((differs & (np.isnan(g) != np.isnan(w))).any())
    if close is not None:
        errors["max_abs_error"] = max(errors["max_abs_error"], close.max_abs)
        errors["relative"] = max(errors["relative"], close.relative)
        errors["max_ulp"] = max(errors["max_ulp"] or 0, close.max_ulp)
    if not count:
        return Comparison(same=True, **errors)
    first = tuple(int(i) for i in np.unravel_index(at, want.shape))
    detail = _counts(count, want.size, first, got[first], want[first])
    return _different(nan, first, detail, errors)


def _wide(got: Array, dtype: str) -> np.dtype[Any]:
    """The dtype in which errors are computed."""
    return np.dtype(np.complex128 if is_complex(dtype) or got.dtype.kind == "c" else np.float64)


def _apart(got: Array, want: Array, alike: Array) -> Array:
    """The absolute difference of each element; infinite if it is NaN."""
    apart: Array = np.where(alike, 0.0, np.abs(got - want))
    return np.where(np.isnan(apart), np.inf, apart)


def _counts(count: int, size: int, first: tuple[int, ...], got: Any, want: Any) -> str:
    return f"{count} of {size} differ, first at {_at(first)}: {_show(got)} instead of {_show(want)}"


def _different(nan: bool, first: tuple[int, ...], detail: str, errors: dict[str, Any]) -> Comparison:
    reason = "nan" if nan else "values"
    return Comparison(same=False, reason=reason, first_index=first, detail=detail, **errors)


def _unlike_rounding(got: Array, want: Array, reference: Array, dtype: str, config: ComparisonConfig) -> str:
    """Why a difference within eager's error cannot be rounding; empty if it can."""
    if narrowed(got, want, reference, dtype, config):
        return "every value was rounded to a narrower type than eager's"
    factor = scaled(got, want, reference)
    return "" if factor is None else f"every value is {factor:.4g} times eager's"


def _prefilter(want: Array, dtype: str, config: ComparisonConfig, typical_size: float) -> Array:
    """The difference of each element up to which no float64 run is needed."""
    size = np.abs(want)
    scale = config.prefilter(dtype) * (size + typical_size) + (least(dtype) if typical_size > 0 else 0.0)
    return np.where(np.isfinite(size), scale, 0.0)


def _first(differs: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))


def _at(index: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, index)) + "]"


def _show(number: Any) -> str:
    return f"{number:.6g}"
