"""How far apart two tensors are, in numbers: each metric on values whose answer is known."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from accel_lab.numerics import metrics
from accel_lab.numerics.comparison import compare, compare_tensors
from accel_lab.numerics.dtypes import Array
from accel_lab.numerics.metrics import Special, measure
from accel_lab.numerics.pairs import pairs
from accel_lab.numerics.recording import Entry, Recording
from accel_lab.numerics.values import Record


def f32(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def test_errors_of_a_pair() -> None:
    found = measure(f32(1.0, 2.5, -4.0, 0.5), f32(1.0, 2.0, -2.0, 0.0), "float32")
    assert (found.elements, found.different, found.share) == (4, 3, 0.75)
    assert found.absolute.max == 2.0
    assert found.absolute.mean == pytest.approx((0.5 + 2.0 + 0.5) / 4)
    assert found.absolute.rms == pytest.approx(math.sqrt((0.25 + 4.0 + 0.25) / 4))
    assert found.relative.max == 1.0 and found.relative.mean == pytest.approx(1.25 / 3)
    assert found.zeros == 1, "an element that should be zero has no relative error"
    assert found.first is not None and found.first.index == (1,)
    assert [place.index for place in found.worst] == [(2,), (1,), (3,)]
    assert (found.worst[0].got, found.worst[0].want) == ("-4.0", "-2.0")
    assert found.histogram == ((-2, 1), (0, 1))


def test_equal_values_have_no_error() -> None:
    found = measure(f32(1, math.nan, math.inf), f32(1, math.nan, math.inf), "float32")
    assert (found.different, found.first, found.worst, found.ulp) == (0, None, (), 0)
    assert found.absolute.max == 0.0 and found.cosine == pytest.approx(1.0)


def test_special_values_are_counted_and_do_not_hide_the_errors() -> None:
    nan, inf = math.nan, math.inf
    got = f32(nan, nan, 1.0, inf, -inf, -0.0, 0.0, 2.0)
    want = f32(nan, 1.0, nan, inf, inf, 0.0, -0.0, 1.0)
    found = measure(got, want, "float32")
    assert found.nan == Special(both=1, got=1, want=1)
    assert found.inf == Special(both=2, got=0, want=0), "signs count as different values, not as another kind"
    assert found.negative_zero == Special(both=0, got=1, want=1)
    assert found.absolute.max == 1.0 and found.relative.max == 1.0
    assert found.different == 4, "NaN against a number twice, infinities of two signs, and 2 against 1"
    assert math.isfinite(found.absolute.rms or 0.0)


@pytest.mark.parametrize(
    ("got", "want", "dtype", "ulp"),
    [
        (np.array([1.0 + 2**-10], np.float16), np.array([1.0], np.float16), "float16", 1),
        (np.array([1.0 + 2**-7], np.float32), np.array([1.0], np.float32), "bfloat16", 1),
        (np.array([1 + 2**-52]), np.array([1.0]), "float64", 1),
        (np.array([7], np.int64), np.array([5], np.int64), "int64", None),
        (np.array([True]), np.array([False]), "bool", None),
        (np.array([1 + 1j], np.complex64), np.array([1 - 1j], np.complex64), "complex64", None),
    ],
    ids=["float16", "bfloat16", "float64", "int64", "bool", "complex64"],
)
def test_every_type(got: Array, want: Array, dtype: str, ulp: int | None) -> None:
    found = measure(got, want, dtype)
    assert found.different == 1 and found.ulp == ulp
    assert found.absolute.max == pytest.approx(abs(complex(got[0]) - complex(want[0])))


def test_shapes_without_elements_or_dimensions() -> None:
    empty = measure(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), "float32")
    assert (empty.elements, empty.different, empty.absolute.max, empty.cosine) == (0, 0, None, None)
    alone = measure(np.float32(2.0).reshape(()), np.float32(1.0).reshape(()), "float32")
    assert alone.first is not None and alone.first.index == ()
    with pytest.raises(ValueError, match="shapes"):
        measure(np.zeros(2), np.zeros(3), "float64")


def test_tiny_and_huge_values_keep_their_errors() -> None:
    for unit in (1e-300, 1e300):
        found = measure(np.array([3.0, 4.0]) * unit, np.array([3.0, 5.0]) * unit, "float64")
        assert found.absolute.max == pytest.approx(unit) and found.relative.rms == pytest.approx(0.2 / 2**0.5)
        assert found.cosine == pytest.approx(29 / (5 * math.sqrt(34)))


def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    want = draw.normal(size=(37, 11)).astype(np.float32)
    got = want * (1 + draw.normal(size=want.shape) * 1e-3).astype(np.float32)
    got[3, 4], want[20, 0] = np.nan, np.inf
    whole = measure(got, want, "float32")
    monkeypatch.setattr(metrics, "PART", 32)
    monkeypatch.setattr(metrics.parts, "__defaults__", (32,))
    split = measure(got, want, "float32")
    for name in ("different", "zeros", "ulp", "nan", "inf", "histogram", "worst", "first"):
        assert getattr(split, name) == getattr(whole, name), name
    assert split.relative.rms == pytest.approx(whole.relative.rms)
    assert split.cosine == pytest.approx(whole.cosine)


def test_a_large_pair_needs_little_memory_beside_itself() -> None:
    want = np.ones(12_000_000, dtype=np.float32)
    got = want.copy()
    got[5_000_000] = 2.0
    tracemalloc.start()
    try:
        result = compare_tensors(got, want)
        measure(got, want, "float32")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.first_index == (5_000_000,) and not result.same
    assert peak < want.nbytes, f"{peak / 1e6:.0f} MB for a pair of {want.nbytes / 1e6:.0f} MB each"


def test_parts_are_judged_by_the_magnitude_of_the_whole() -> None:
    """A part of zeros beside large values: what is small against the whole is rounding."""
    want = np.concatenate([np.zeros(metrics.PART, np.float32), np.full(metrics.PART, 1e3, np.float32)])
    got = want.copy()
    got[7] = 1e-4
    assert compare_tensors(got, want).same
    got[7] = 1.0
    assert compare_tensors(got, want).first_index == (7,)


# -- recordings side by side ------------------------------------------------------------------------


def entry(
    path: str, values: Any, *, phase: str = "output", reference: Any = None, dtype: str = "float32"
) -> Entry:
    data = np.asarray(values, dtype=np.float32)
    record = Record(kind="tensor", dtype=dtype, shape=data.shape, data=data)
    high = None if reference is None else np.asarray(reference, dtype=np.float64)
    call = 0 if phase == "output" else -1
    return Entry(key=("f", 0, call, phase, path), record=record, reference=high)


def recording(*entries: Entry) -> Recording:
    return Recording(entries={one.key: one for one in entries})


def test_pairs_keep_the_order_and_tell_what_is_alone() -> None:
    want = recording(entry("a", [1.0, 2.0]), entry("b", [1.0]), entry("w", [1.0], phase="grad"))
    got = recording(entry("b", [1.5]), entry("a", [1.0, 2.0]), entry("c", [0.0]))
    found = pairs(got, want)
    assert [(pair.key[4], pair.reason) for pair in found] == [
        ("a", ""),
        ("b", "values"),
        ("w", ""),  # kept alive by one run only
        ("c", "extra"),
    ]
    assert found[1].metrics is not None and found[1].metrics.absolute.max == 0.5
    assert found[1].place == "f call 0 output b" and found[2].place == "f grad w"


def test_drift_of_types_and_shapes_is_told_without_metrics() -> None:
    want = recording(entry("a", [1.0, 2.0]), entry("b", [[1.0]]))
    got = recording(entry("a", [1.0, 2.0], dtype="bfloat16"), entry("b", [1.0]))
    found = pairs(got, want)
    assert [pair.reason for pair in found] == ["dtype", "shape"]
    assert found[0].metrics is None


def test_against_float64_the_errors_are_those_of_the_tested_run() -> None:
    want = recording(entry("a", [1.0], reference=[1.0 + 1e-9]))
    got = recording(entry("a", [1.0 + 2**-23]))
    (pair,) = pairs(got, want, against_float64=True)
    assert pair.metrics is not None and pair.metrics.absolute.max == pytest.approx(2**-23 - 1e-9)
    assert pair.comparison.same


def test_several_runs_give_mean_and_variance() -> None:
    want = recording(entry("a", [1.0]))
    runs = [recording(entry("a", [1.0 + error])) for error in (0.0, 0.5, 1.0)]
    (pair,) = pairs(runs[0], want, more=runs[1:])
    told = pair.to_json()["runs"]
    assert told["mean"] == pytest.approx(0.5) and told["variance"] == pytest.approx(1 / 6)


def test_the_verdict_is_the_one_of_the_search() -> None:
    one, two = entry("a", [1.0, 2.0]), entry("a", [1.0, 2.1])
    (pair,) = pairs(recording(two), recording(one))
    assert pair.comparison == compare(two.record, one.record, measure=None)
