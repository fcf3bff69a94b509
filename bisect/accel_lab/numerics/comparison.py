"""Decides whether a compiled result differs from eager's, by the float64 rule or by exact rules.

With a float64 reference, a result differs if its error exceeds eager's by a factor plus a floor that depends
on the dtype (``ComparisonConfig``, ``closeness``). Without a reference, the tolerance is relative to the
tensor's own values. The *prefilter* is a stricter rule without a reference; it only decides whether a float64
run is needed.

Dtype and shape always count. Strides are reported but count only on request: torch guarantees the values of a
compiled function's outputs, but their memory order depends on layout optimization and on the chosen kernels.
A wrong stride that matters shows in values or in an exception.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .closeness import error, greatest
from .dtypes import Array, is_floating
from .elements import compare_exactly, compare_floats
from .tolerances import ComparisonConfig
from .values import SAME, Comparison, Measure, Record


def compare(
    got: Record,
    want: Record,
    reference: Array | None = None,
    config: ComparisonConfig | None = None,
    *,
    measure: Measure | None = None,
) -> Comparison:
    """Compares a compiled result with eager's, by the float64 ``reference`` if there is one.

    ``measure`` replaces ``reference`` and has further measures of the run.
    """
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
    """Compares two tensors, arrays, nested lists or numbers.

    ``want`` is the trusted result, ``reference`` the result of a float64 run of the same computation. Raises
    :class:`TypeError` for nested and meta tensors.
    """
    high = None if reference is None else _array(reference)
    return compare(_tensor(got), _tensor(want), high, config)


def _tensor(value: Any) -> Record:
    """The record of a value; a number becomes a 0-d array."""
    return record_of(np.asarray(value) if isinstance(value, (bool, int, float, complex)) else value)


def _array(value: Any) -> Array | None:
    return _tensor(value).data


def record_of(value: Any) -> Record:
    """Converts a tensor, array, number or other value to a record, without importing torch.

    Nested lists become arrays, sparse tensors become dense, and quantized tensors are dequantized. Raises
    :class:`TypeError` for nested and meta tensors.
    """
    if isinstance(value, Record):
        return value
    if not hasattr(value, "detach"):
        return _record_without_torch(value)
    dtype = str(value.dtype).removeprefix("torch.")
    if getattr(value, "is_nested", False):
        raise TypeError("a nested tensor is compared part by part: pass the tensors of its unbind()")
    if getattr(value, "is_meta", False):
        raise TypeError("a tensor on the meta device has no values to compare")
    layout = str(getattr(value, "layout", "torch.strided")).removeprefix("torch.")
    if layout != "strided":
        value = value.to_dense()
    if getattr(value, "is_quantized", False):
        value = value.dequantize()
    host = value.detach().cpu().resolve_conj().resolve_neg()
    if dtype == "complex32":
        array = (host.real.float().numpy() + 1j * host.imag.float().numpy()).astype(np.complex64)
    else:
        narrow = dtype == "bfloat16" or dtype.startswith("float8")
        array = np.asarray((host.float() if narrow else host).contiguous().numpy())
    stride = tuple(value.stride())
    kind = "" if layout == "strided" else layout
    return Record(kind="tensor", type=kind, dtype=dtype, shape=tuple(value.shape), stride=stride, data=array)


def _record_without_torch(value: Any) -> Record:
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return Record(kind="value", type=type(value).__name__, value=value)
    if not isinstance(value, (np.ndarray, np.generic, list, tuple)):
        return Record(kind="object", type=type(value).__name__)
    array = np.asarray(value)
    stride = tuple(s // max(1, array.itemsize) for s in array.strides)
    return Record(kind="tensor", dtype=str(array.dtype), shape=array.shape, stride=stride, data=array)


def _what(record: Record) -> str:
    name = record.type or record.kind
    return f"{name} of {record.dtype}{list(record.shape)}" if record.kind == "tensor" else name


def _drift(reason: str, got: object, want: object) -> Comparison:
    return Comparison(same=False, reason=reason, detail=f"{reason} {got} instead of {want}")


def _strides(record: Record) -> tuple[int, ...]:
    """The strides of dimensions larger than 1; none for an empty tensor."""
    if 0 in record.shape:
        return ()
    return tuple(s for n, s in zip(record.shape, record.stride, strict=False) if n > 1)


def _compare_values(got: Record, want: Record, measure: Measure, config: ComparisonConfig) -> Comparison:
    """Compares Python values exactly, but floats like float32, as most come from a float32 tensor.

    A float without a float64 reference is compared relative to itself, however small it is.
    """
    one, two = got.value, want.value
    if want.type in ("float", "complex"):
        kind = np.complex128 if want.type == "complex" else np.float64
        parts = [np.asarray(number_of(v), dtype=kind).reshape(()) for v in (one, two)]
        dtype = "complex64" if want.type == "complex" else "float32"
        a, b = (Record(kind="tensor", dtype=dtype, data=p) for p in parts)
        if measure.reference is None:
            measure = Measure(prefilter=measure.prefilter)
        result = _compare_tensors(a, b, measure, config)
        if result.same:
            return replace(result, max_ulp=None)
        return replace(result, reason="value", max_ulp=None, detail=f"{one} instead of {two}")
    if type(one) is type(two) and one == two and got.sha256 == want.sha256:
        return SAME
    return Comparison(same=False, reason="value", detail=f"{one!r} instead of {two!r}"[:200])


def number_of(value: Any) -> Any:
    """Converts a number from the recorder's JSON form (text or a pair of texts) to float or complex."""
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
        result = compare_exactly(one, two)
    else:
        result = compare_floats(one, two, measure, want.dtype, config)
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
    """Reference or spread values in the shape of the compared data; None if they do not fit."""
    if values is None:
        return None
    if step is not None:
        values = values.reshape(-1)[::step]
    return values.reshape(data.shape) if values.size == data.size else None


def _sampled(record: Record, step: int | None) -> Array | None:
    """The values, flat and with every ``step``-th element only if the other side has a sample."""
    if record.data is None or step is None or record.sample_step:
        return record.data
    return record.data.reshape(-1)[::step]


def _identical(want: Record, reference: Array) -> Comparison:
    """The comparison of bitwise equal values, with their errors against the reference."""
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


def _compare_statistics(got: Record, want: Record, measure: Measure, config: ComparisonConfig) -> Comparison:
    """Compares records without values: by min, max and mean; non-floats and records without them differ."""
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
    if measure.prefilter:
        allowance = config.prefilter(want.dtype) * magnitude
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
    """The absolute error that the spread of a sample allows for statistics of the whole tensor."""
    return 0.0 if spread is None or spread.size == 0 else config.noise_factor * float(spread.max())
