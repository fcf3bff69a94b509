"""Whether a compiled result differs from eager's: the float64 rule, exact rules, and what to say of it.

The rule with a reference: a result differs when it is further from the float64 run than eager is, by a
stated factor and beyond a floor that depends on the type (``ComparisonConfig``, ``closeness``). Without one
the rule is relative to the tensor's own values, however small; its strict form, the sieve, only tells whether
a float64 run is worth asking.

Type and shape always count. Strides are told but count only when asked: torch promises the values of a
compiled function's outputs, while their memory order changes with layout optimisation and with the kernel
that a build picks; a wrong stride that matters shows in values or in an exception.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .closeness import allowed, equal, error, further, greatest, narrowed, relative_to_size, scaled, typical
from .dtypes import Array, is_complex, is_floating, least, ulps_apart
from .tolerances import ComparisonConfig


@dataclass(frozen=True, kw_only=True)
class Record:
    """One recorded value: a tensor with its values, a Python value, or an object.

    ``sample_step`` says that ``data`` is a flat sample, one element in so many; ``bases`` are the types that
    an exception's type derives from.
    """

    kind: str
    type: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
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
        """The absolute error that is never counted where nothing tells what rounding is worth."""
        if self.magnitude is None and self.reference is None:
            return 0.0
        return config.noise(dtype, self.magnitude)

    def reach(self, dtype: str, config: ComparisonConfig) -> float:
        """How far another order of summing moves a result at most."""
        if self.magnitude is None or not self.half:
            return math.inf
        return config.reach(dtype, self.magnitude)


def compare(
    got: Record,
    want: Record,
    reference: Array | None = None,
    config: ComparisonConfig | None = None,
    *,
    measure: Measure | None = None,
) -> Comparison:
    """Compare a compiled result with eager's, given the float64 values that belong to it, if any."""
    config = config or ComparisonConfig()
    measure = measure or Measure(reference=reference)
    if got.kind != want.kind or got.type != want.type:
        one, two = _what(got), _what(want)
        return Comparison(same=False, reason="type", detail=f"{one} instead of {two}")
    if want.kind == "value":
        return _compare_values(got, want, measure, config)
    if want.kind != "tensor":
        return SAME if got.dtype == want.dtype else _drift("dtype", got.dtype, want.dtype)
    if got.dtype != want.dtype:
        return _drift("dtype", got.dtype, want.dtype)
    if got.shape != want.shape:
        return _drift("shape", got.shape, want.shape)
    stride_differs = _strides(got) != _strides(want)
    if stride_differs and config.strides:
        return replace(_drift("stride", got.stride, want.stride), stride_differs=True)
    result = _compare_tensors(got, want, measure, config)
    if stride_differs:
        return replace(result, stride_differs=True)
    return result


def compare_tensors(
    got: Any, want: Any, config: ComparisonConfig | None = None, *, reference: Any = None
) -> Comparison:
    """Compare two tensors, arrays or nested lists.

    ``want`` is the trusted result, ``reference`` the float64 run of the same computation.
    """
    high = None if reference is None else _record(reference).data
    return compare(_record(got), _record(want), high, config)


def _record(value: Any) -> Record:
    """Anything array-like as a record. A torch tensor is read by its own methods: torch is not imported."""
    if isinstance(value, Record):
        return value
    if not hasattr(value, "detach"):
        array = np.asarray(value)
        stride = tuple(s // max(1, array.itemsize) for s in array.strides)
        return Record(kind="tensor", dtype=str(array.dtype), shape=array.shape, stride=stride, data=array)
    dtype = str(value.dtype).removeprefix("torch.")
    host = value.detach().cpu().resolve_conj().resolve_neg()
    if dtype == "complex32":
        array = (host.real.float().numpy() + 1j * host.imag.float().numpy()).astype(np.complex64)
    else:
        narrow = dtype == "bfloat16" or dtype.startswith("float8")
        array = np.asarray((host.float() if narrow else host).contiguous().numpy())
    stride = tuple(value.stride())
    return Record(kind="tensor", dtype=dtype, shape=tuple(value.shape), stride=stride, data=array)


def _what(record: Record) -> str:
    name = record.type or record.kind
    return f"{name} of {record.dtype}{list(record.shape)}" if record.kind == "tensor" else name


def _drift(reason: str, got: object, want: object) -> Comparison:
    return Comparison(same=False, reason=reason, detail=f"{reason} {got} instead of {want}")


def _strides(record: Record) -> tuple[int, ...]:
    """Strides that say something: those of dimensions longer than 1, of tensors that are not empty."""
    if 0 in record.shape:
        return ()
    return tuple(s for n, s in zip(record.shape, record.stride, strict=False) if n > 1)


def _compare_values(got: Record, want: Record, measure: Measure, config: ComparisonConfig) -> Comparison:
    """Python values: exact, but floats as float32, since they mostly come out of a float32 tensor.

    One of which no float64 value is known is compared relative to itself, however small it is.
    """
    one, two = got.value, want.value
    if want.type in ("float", "complex"):
        kind = np.complex128 if want.type == "complex" else np.float64
        parts = [np.asarray(number_of(v), dtype=kind).reshape(()) for v in (one, two)]
        dtype = "complex64" if want.type == "complex" else "float32"
        a, b = (Record(kind="tensor", dtype=dtype, data=p) for p in parts)
        if measure.reference is None:
            measure = Measure(sieve=measure.sieve)
        result = _compare_tensors(a, b, measure, config)
        if result.same:
            return replace(result, max_ulp=None)
        return replace(result, reason="value", max_ulp=None, detail=f"{one} instead of {two}")
    if type(one) is type(two) and one == two and got.sha256 == want.sha256:
        return SAME
    return Comparison(same=False, reason="value", detail=f"{one!r} instead of {two!r}"[:200])


def number_of(value: Any) -> Any:
    """A float or complex number as the recorder writes it."""
    if isinstance(value, (list, tuple)):
        return complex(float(value[0]), float(value[1]))
    return float(value) if isinstance(value, str) else value


def _compare_tensors(got: Record, want: Record, measure: Measure, config: ComparisonConfig) -> Comparison:
    if got.sha256 and got.sha256 == want.sha256 and not config.signed_zero:
        return SAME if measure.reference is None else _identical(want, measure.reference)
    step = want.sample_step or got.sample_step
    one, two = _sampled(got, step), _sampled(want, step)
    if one is None or two is None or one.shape != two.shape:
        return _compare_statistics(got, want, measure, config)
    if two.size == 0:
        return SAME
    thin = step if step and not want.sample_step else None
    measure = replace(
        measure,
        reference=_like(measure.reference, two, thin),
        spread=_like(measure.spread, two, thin),
    )
    if not is_floating(want.dtype):
        result = _compare_exactly(one, two)
    else:
        result = _compare_floats(one, two, measure, want.dtype, config)
    if step is None:
        return result
    if result.same and not (whole := _compare_statistics(got, want, measure, config)).same:
        return whole
    detail = f"{result.detail}; " if result.detail else ""
    changes: dict[str, Any] = {"detail": f"{detail}one element in {step} was compared"}
    if result.first_index is not None:
        flat = min(result.first_index[0] * step, math.prod(want.shape) - 1)
        changes["first_index"] = tuple(int(i) for i in np.unravel_index(flat, want.shape))
    return replace(result, **changes)


def _like(values: Array | None, data: Array, step: int | None) -> Array | None:
    """Values that belong to a tensor in the shape in which it is compared; None where they do not fit."""
    if values is None:
        return None
    if step is not None:
        values = values.reshape(-1)[::step]
    return values.reshape(data.shape) if values.size == data.size else None


def _sampled(record: Record, step: int | None) -> Array | None:
    """The values, flat and thinned out where either side kept only a sample."""
    if record.data is None or step is None or record.sample_step:
        return record.data
    return record.data.reshape(-1)[::step]


def _identical(want: Record, reference: Array) -> Comparison:
    """Equal bit for bit: nothing to judge, but the errors are worth telling."""
    if want.data is None or want.data.size != reference.size:
        return SAME
    with np.errstate(all="ignore"):
        worst = greatest(error(want.data.reshape(reference.shape).astype(reference.dtype), reference))
    return Comparison(
        same=True,
        max_abs_error=0.0,
        relative=0.0,
        max_ulp=0,
        error_vs_reference=worst,
        eager_error_vs_reference=worst,
    )


def _compare_exactly(got: Array, want: Array) -> Comparison:
    """Integers, bools and bytes of types that are not known."""
    differs = got != want
    if not differs.any():
        return Comparison(same=True, max_abs_error=0.0)
    first = _first(differs)
    high, low = np.maximum(got, want)[differs], np.minimum(got, want)[differs]
    if got.dtype == bool:
        apart = 1.0
    else:  # in uint64 the difference of any two integers is exact
        apart = float((high.astype(np.int64).view(np.uint64) - low.astype(np.int64).view(np.uint64)).max())
    if got.dtype == np.uint64:
        apart = float((high - low).max())
    counts = f"{int(differs.sum())} of {got.size} differ, first at {_at(first)}"
    detail = f"{counts}: {got[first]} instead of {want[first]}"
    return Comparison(same=False, reason="values", max_abs_error=apart, first_index=first, detail=detail)


def _compare_floats(
    got: Array, want: Array, measure: Measure, dtype: str, config: ComparisonConfig
) -> Comparison:
    with np.errstate(all="ignore"):
        wide = np.complex128 if is_complex(dtype) or got.dtype.kind == "c" else np.float64
        g, w = got.astype(wide), want.astype(wide)
        r = None if measure.reference is None or measure.sieve else measure.reference.astype(wide)
        alike = equal(g, w, config.signed_zero)
        apart = np.where(alike, 0.0, np.abs(g - w))
        apart = np.where(np.isnan(apart), np.inf, apart)
        errors: dict[str, Any] = {
            "max_abs_error": float(apart.max()),
            "relative": relative_to_size(apart, w, dtype),
            "max_ulp": ulps_apart(got, want, dtype),
        }
        how = ""
        if measure.sieve:
            differs = ~alike & (apart > _sieve(w, dtype, config))
        elif r is None:
            differs = ~alike & (apart > allowed(w, dtype, config, measure.noise(dtype, config)))
        else:
            ours, eagers = error(g, r), error(w, r)
            errors["error_vs_reference"] = greatest(ours)
            errors["eager_error_vs_reference"] = greatest(eagers)
            noise, reach = measure.noise(dtype, config), measure.reach(dtype, config)
            beyond = further(ours, eagers, r, dtype, config, spread=measure.spread, noise=noise, reach=reach)
            differs = ~alike & beyond
            if not differs.any():
                how = _unlike_rounding(g, w, r, dtype, config)
                differs = ~alike if how else differs
        if config.signed_zero:
            differs |= ~alike & (g == 0) & (w == 0)
    if not differs.any():
        return Comparison(same=True, **errors)
    first = _first(differs)
    nan = np.isnan(g) != np.isnan(w)
    reason = "nan" if bool((differs & nan).any()) else "values"
    detail = (
        f"{int(differs.sum())} of {differs.size} differ, first at {_at(first)}: "
        f"{_show(got[first])} instead of {_show(want[first])}"
    )
    if r is not None:
        detail += (
            f" (float64: {_show(r[first])}); error {errors['error_vs_reference']:.3g}, "
            f"eager's {errors['eager_error_vs_reference']:.3g}"
        )
    if how:
        detail += f"; {how}"
    return Comparison(same=False, reason=reason, first_index=first, detail=detail, **errors)


def _unlike_rounding(got: Array, want: Array, reference: Array, dtype: str, config: ComparisonConfig) -> str:
    """What shows that a difference within eager's own error is not made by rounding; empty if nothing."""
    if narrowed(got, want, reference, dtype, config):
        return "every value was rounded to a narrower type than eager's"
    factor = scaled(got, want, reference)
    return "" if factor is None else f"every value is {factor:.4g} times eager's"


def _sieve(want: Array, dtype: str, config: ComparisonConfig) -> Array:
    """The difference of each element that the float64 run need not be asked about."""
    size = np.abs(want)
    scale = config.sieve(dtype) * (size + typical(size)) + (least(dtype) if (size > 0).any() else 0.0)
    return np.where(np.isfinite(size), scale, 0.0)


def _compare_statistics(got: Record, want: Record, measure: Measure, config: ComparisonConfig) -> Comparison:
    """Where no values were kept: by hash, then by least, greatest and mean value."""
    if not is_floating(want.dtype) or not got.stats or not want.stats:
        return Comparison(same=False, reason="values", detail="the hashes of the values differ")
    for name in ("nan", "inf"):
        if got.stats.get(name) != want.stats.get(name):
            one, two = got.stats.get(name), want.stats.get(name)
            return Comparison(same=False, reason="nan", detail=f"{one} {name} instead of {two}")
    pairs = [(got.stats.get(n), want.stats.get(n)) for n in ("min", "max", "mean")]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known:
        return Comparison(same=True, detail="compared by statistics only")
    magnitude = max(abs(b) for _, b in known)
    worst = max(abs(a - b) for a, b in known)
    if measure.sieve:
        allowance = config.sieve(want.dtype) * magnitude
    else:
        noise = max(measure.noise(want.dtype, config), _noise_of(measure.spread, config))
        allowance = 2 * config.relative(want.dtype) * magnitude + noise
    errors = {"max_abs_error": worst, "relative": worst / magnitude if magnitude else worst}
    detail = "compared by statistics only"
    if worst <= allowance:
        return Comparison(same=True, detail=detail, **errors)
    detail = f"statistics differ by {worst:.3g} ({detail})"
    return Comparison(same=False, reason="values", detail=detail, **errors)


def _noise_of(spread: Array | None, config: ComparisonConfig) -> float:
    """What the known spread of a sample allows the statistics of the whole."""
    return 0.0 if spread is None or spread.size == 0 else config.noise_factor * float(spread.max())


def _first(differs: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))


def _at(index: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, index)) + "]"


def _show(number: Any) -> str:
    return f"{number:.6g}"
