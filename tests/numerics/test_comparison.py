"""The comparison: what differs, what does not, and how a float64 reference tells roundings from bugs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accel_lab.numerics.close_values import CloseValues
from accel_lab.numerics.comparison import compare, compare_tensors
from accel_lab.numerics.dtypes import decode, ulps_apart
from accel_lab.numerics.tolerances import TORCH_DEFAULTS, ComparisonConfig
from accel_lab.numerics.values import Comparison, Measure, Record

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
FLOATS = st.sampled_from(["float16", "float32", "float64", "complex64", "complex128"])
INTEGERS = st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
GENERATOR = np.random.default_rng()


@pytest.fixture(autouse=True)
def _same_numbers_in_each_test() -> None:
    GENERATOR.bit_generator.state = np.random.default_rng(20).bit_generator.state


def arrays(dtypes: st.SearchStrategy[str]) -> st.SearchStrategy[np.ndarray]:
    return dtypes.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))


def record(array: np.ndarray, **changes: Any) -> Record:
    stride = tuple(s // max(1, array.itemsize) for s in array.strides)
    given_ = {
        "kind": "tensor",
        "dtype": str(array.dtype),
        "shape": array.shape,
        "stride": stride,
        "data": array,
    }
    return Record(**{**given_, **changes})


def eager_and_compiled(terms: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same dot products summed in two orders in float32, and in float64."""
    a = GENERATOR.standard_normal((count, terms)).astype(np.float32)
    b = GENERATOR.standard_normal((count, terms)).astype(np.float32)
    products = a * b
    forward = np.zeros(count, np.float32)
    backward = np.zeros(count, np.float32)
    for i in range(terms):
        forward += products[:, i]
        backward += products[:, terms - 1 - i]
    return forward, backward, (a.astype(np.float64) * b.astype(np.float64)).sum(1)


# ---- laws ------------------------------------------------------------------------------------------------


@given(arrays(st.one_of(FLOATS, INTEGERS)), st.booleans(), st.booleans())
def test_everything_equals_itself(array: np.ndarray, signed_zero: bool, with_reference: bool) -> None:
    config = ComparisonConfig(signed_zero=signed_zero, strides=True)
    reference = None
    if with_reference and array.dtype.kind in "fc":
        reference = np.zeros(array.shape, np.complex128 if array.dtype.kind == "c" else np.float64)
    result = compare(record(array), record(array.copy()), reference, config)
    assert result.same and result.reason == "" and result.first_index is None
    assert not result.max_abs_error


@given(st.data(), INTEGERS)
def test_integers_differ_both_ways_or_neither(data: st.DataObject, dtype: str) -> None:
    shape = data.draw(SHAPES)
    a, b = data.draw(hnp.arrays(dtype, shape)), data.draw(hnp.arrays(dtype, shape))
    one, two = compare_tensors(a, b), compare_tensors(b, a)
    assert one.same == two.same == bool(np.array_equal(a, b))
    assert (one.max_abs_error, one.first_index) == (two.max_abs_error, two.first_index)
    if not one.same:
        apart = [abs(int(x) - int(y)) for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)]
        assert one.max_abs_error == float(max(apart))
        assert one.first_index == tuple(map(int, np.argwhere(a != b)[0]))


@given(hnp.arrays("float32", st.integers(1, 300), elements=st.floats(-4, 4, width=32)), st.randoms())
def test_the_order_of_elements_does_not_matter(want: np.ndarray, random: Any) -> None:
    got = want.copy()
    got[random.randrange(len(got))] += np.float32(random.choice([1e-7, 1e-5, 1e-3, 1.0]))
    order = np.array(random.sample(range(len(got)), len(got)))
    reference = want.astype(np.float64)
    one = compare_tensors(got, want, reference=reference)
    two = compare_tensors(got[order], want[order], reference=reference[order])
    assert one.same == two.same
    assert one.max_abs_error == two.max_abs_error
    assert one.error_vs_reference == two.error_vs_reference


@given(hnp.arrays("float32", SHAPES, elements=st.floats(-100, 100, width=32)), st.integers(-20, 20))
def test_a_power_of_two_changes_nothing(want: np.ndarray, power: int) -> None:
    """The rule is relative wherever eager has correct digits."""
    assume((np.abs(want) >= 1e-3).all())
    got = want * np.float32(1 + 2**-14)
    scale = np.float32(2.0**power)
    plain = compare_tensors(got, want, reference=want.astype(np.float64))
    scaled = compare_tensors(got * scale, want * scale, reference=(want * scale).astype(np.float64))
    assert plain.same == scaled.same


@given(hnp.arrays("float64", SHAPES), hnp.arrays("float64", SHAPES))
def test_it_never_raises_and_is_json(a: np.ndarray, b: np.ndarray) -> None:
    for reference in (None, a, np.zeros(3)):
        result = compare(record(a), record(b), reference)
        json.dumps(result.to_json(), allow_nan=False)
        assert result.same == (result.reason == "")


# ---- the float64 rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("terms", "count"), [(64, 1), (64, 1000), (4096, 3), (4096, 300)])
def test_another_order_of_summing_is_no_difference(terms: int, count: int) -> None:
    eager, compiled, reference = eager_and_compiled(terms, count)
    assert not np.array_equal(eager, compiled) or count < 10
    for got, want in ((eager, compiled), (compiled, eager)):
        assert compare_tensors(got, want, reference=reference).same
        assert compare_tensors(got, want).same


@pytest.mark.parametrize("place", [0, 17, 999])
@pytest.mark.parametrize("error", [1e-3, 0.1, 10.0])
def test_one_wrong_element_among_a_thousand_is_found(place: int, error: float) -> None:
    eager, compiled, reference = eager_and_compiled(64, 1000)
    compiled[place] += error
    result = compare_tensors(compiled, eager, reference=reference)
    assert (result.same, result.reason, result.first_index) == (False, "values", (place,))
    assert result.max_abs_error == pytest.approx(error, rel=1e-2)
    assert result.error_vs_reference == pytest.approx(error, rel=1e-2)
    assert result.eager_error_vs_reference is not None and result.eager_error_vs_reference < 1e-4
    assert "1 of 1000 differ" in result.detail


def test_small_values_are_not_hidden_by_a_mask() -> None:
    """Half of the scores are masked with a huge number, whose roundings are huge too."""
    reference = GENERATOR.standard_normal((64, 64))
    mask = np.triu(np.ones((64, 64), bool), 1)
    reference[mask] = -1e9 + reference[mask]
    eager = reference.astype(np.float32)
    assert compare_tensors(np.nextafter(eager, 0), eager, reference=reference).same
    compiled = eager.copy()
    compiled[40, 3] = 0.0
    assert compare_tensors(compiled, eager, reference=reference).first_index == (40, 3)
    assert compare_tensors(compiled, eager).first_index == (40, 3)


def test_a_tensor_of_tiny_values_that_is_all_wrong_is_found() -> None:
    reference = GENERATOR.standard_normal(200) * 1e-9
    eager = reference.astype(np.float32)
    result = compare_tensors(np.zeros_like(eager), eager, reference=reference)
    assert (result.same, result.reason) == (False, "values")


@pytest.mark.parametrize("count", [1, 8, 500])
def test_noise_around_zero_is_no_difference(count: int) -> None:
    """The gradient of a bias before a batch norm: the truth is zero, both results are roundings."""
    reference = GENERATOR.standard_normal(count) * 1e-18
    eager = (GENERATOR.standard_normal(count) * 1e-8).astype(np.float32)
    compiled = (GENERATOR.standard_normal(count) * 4e-8).astype(np.float32)
    assert compare_tensors(compiled, eager, reference=reference).same
    assert compare_tensors(compiled, np.zeros_like(eager), reference=reference).same
    assert not compare_tensors(compiled + np.float32(0.01), eager, reference=reference).same


def test_a_result_nearer_to_the_reference_than_eager_is_no_difference() -> None:
    reference = GENERATOR.standard_normal(300)
    eager = (reference * (1 + 1e-2)).astype(np.float16)
    compiled = reference.astype(np.float16)
    assert compare_tensors(compiled, eager, reference=reference).same
    assert not compare_tensors(eager, compiled, reference=reference).same
    assert not compare_tensors(compiled, eager).same, "without a reference it cannot be told"


def test_the_factor_and_the_floor() -> None:
    reference = np.linspace(1.0, 1.9, 64)  # one binade, so that all errors are of like magnitude
    eager = (reference + 1e-3).astype(np.float32)

    def off_by(error: float, **options: float) -> bool:
        got = (reference + error).astype(np.float32)
        return compare_tensors(got, eager, ComparisonConfig(**options), reference=reference).same  # type: ignore[arg-type]

    assert off_by(2.9e-3) and off_by(-2.9e-3) and not off_by(3.2e-3)
    assert off_by(9.9e-3, factor=10.0) and not off_by(1.2e-3, factor=1.0)
    exact = reference.astype(np.float32).astype(np.float64)
    eager = exact.astype(np.float32)
    floor = ComparisonConfig().floor("float32")
    assert floor == 128 * 2.0**-23
    assert compare_tensors((exact * (1 + floor)).astype(np.float32), eager, reference=exact).same
    assert not compare_tensors((exact * (1 + 3 * floor)).astype(np.float32), eager, reference=exact).same


@pytest.mark.parametrize(
    ("dtype", "relative"), [("float16", 2e-3), ("float32", 4e-6), ("float64", 2e-13), ("complex64", 4e-6)]
)
def test_roundings_pass_and_errors_of_one_in_a_hundred_do_not(dtype: str, relative: float) -> None:
    reference = GENERATOR.standard_normal(100) + (
        1j * GENERATOR.standard_normal(100) if dtype[0] == "c" else 0
    )
    eager = reference.astype(dtype)
    assert compare_tensors((reference * (1 + relative)).astype(dtype), eager, reference=reference).same
    assert not compare_tensors((reference * 1.01).astype(dtype), eager, reference=reference).same


SCALES = st.integers(-80, 100)
PREFILTER = Measure(prefilter=True)


@given(
    hnp.arrays("float32", st.integers(1, 200), elements=st.floats(-4, 4, width=32)),
    SCALES,
    st.sampled_from([0.0, 1e-7, 1e-6, 3e-6, 1e-4, 0.5]),
    st.randoms(),
)
def test_the_prefilter_is_free_of_scale(want: np.ndarray, power: int, error: float, random: Any) -> None:
    assume(((np.abs(want) >= 1e-3) | (want == 0)).all())
    got = want.copy()
    got[random.randrange(len(got))] *= np.float32(1 + error)
    scale = np.float32(2.0**power)
    plain = compare(record(got), record(want), measure=PREFILTER)
    scaled = compare(record(got * scale), record(want * scale), measure=PREFILTER)
    assert plain.same == scaled.same
    assert plain.relative == pytest.approx(scaled.relative)


@given(
    hnp.arrays("float32", st.integers(1, 200), elements=st.floats(0.5, 4, width=32)),
    st.floats(-30, 30),
    st.randoms(),
)
def test_an_error_of_half_is_seen_at_any_scale(want: np.ndarray, exponent: float, random: Any) -> None:
    want = (want * 10.0**exponent).astype(np.float32)
    got = want.copy()
    place = random.randrange(len(got))
    got[place] /= 2
    assert compare(record(got), record(want), measure=PREFILTER).first_index == (place,)
    assert compare(record(got), record(want)).first_index == (place,)
    exact = want.astype(np.float64)
    assert compare_tensors(got, want, reference=exact).first_index == (place,)
    known = Measure(reference=exact, spread=np.abs(exact) * 2.0**-24, magnitude=1e30)
    assert compare(record(got), record(want), measure=known).first_index == (place,)


def test_the_spread_tells_noise_from_small_values() -> None:
    """Eager's difference of equal numbers is exactly zero by luck."""
    eager = np.zeros(50, np.float32)
    compiled = (GENERATOR.standard_normal(50) * 4e-8).astype(np.float32)
    reference = GENERATOR.standard_normal(50) * 1e-18
    for spread, same in ((3e-8, True), (3e-12, False)):
        measure = Measure(reference=reference, spread=np.full(50, spread), magnitude=1.0)
        assert compare(record(compiled), record(eager), measure=measure).same is same


def test_a_bias_of_all_elements_is_no_rounding() -> None:
    """The greatest error of few hides an error that all elements have."""
    reference = np.linspace(1.0, 1.9, 4096)
    eager = (reference * (1 + GENERATOR.normal(0, 2e-3, 4096))).astype(np.float32)
    noise = GENERATOR.normal(0, 2e-3, 4096)
    assert compare_tensors((reference * (1 + noise)).astype(np.float32), eager, reference=reference).same
    biased = compare_tensors((reference * (1.006 + noise)).astype(np.float32), eager, reference=reference)
    assert (biased.same, biased.reason) == (False, "values")


def test_a_result_rounded_to_a_narrower_type_is_told() -> None:
    reference = GENERATOR.standard_normal((16, 4))
    eager = (reference + GENERATOR.normal(0, 0.01, (16, 4))).astype(np.float32)
    short = (eager.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    result = compare_tensors(short, eager, reference=reference)
    assert not result.same and "narrower type" in result.detail
    assert compare_tensors(eager, short, reference=reference).same, "the more precise one is no fault"
    assert compare_tensors(short[0, :3], eager[0, :3], reference=reference[0, :3]).same, "too few to tell"


def test_a_result_in_proportion_to_eager_s_is_told() -> None:
    reference = GENERATOR.standard_normal(192)
    eager = (reference * 1.011 + GENERATOR.normal(0, 0.03, 192)).astype(np.float32)
    result = compare_tensors(eager * np.float32(1.03), eager, reference=reference)
    assert not result.same and result.detail.endswith("every value is 1.03 times eager's")
    assert compare_tensors(eager * np.float32(1.003), eager, reference=reference).same, (
        "one rounding upstream"
    )
    other = (reference * 1.03 + GENERATOR.normal(0, 0.03, 192)).astype(np.float32)
    assert compare_tensors(other, eager, reference=reference).same, "other roundings"
    noise = (GENERATOR.standard_normal(192) * 1e-8).astype(np.float32)
    for got in (noise * 0, noise * np.float32(0.5)):
        measure = Measure(reference=np.zeros(192), spread=np.full(192, 1e-8))
        assert compare(record(got), record(noise), measure=measure).same, "noise in proportion to noise"


def test_errors_of_half_types_are_not_taken_for_another_order_of_summing() -> None:
    reference = GENERATOR.standard_normal(192) * 0.02
    eager = (reference + GENERATOR.normal(0, 0.0012, 192)).astype(np.float32)
    lost = eager.copy()
    lost[np.argmax(np.abs(reference))] = 0.0
    spread = np.full(192, 0.0012)
    for half, same in ((True, False), (False, True)):
        measure = Measure(reference=reference, spread=spread, magnitude=3.0, half=half)
        assert compare(record(lost), record(eager), measure=measure).same is same


def test_what_is_below_the_normal_numbers_may_be_flushed() -> None:
    want = np.array([1e-39, 1e-40, 0.0], np.float32)
    for measure in (Measure(), PREFILTER, Measure(reference=want.astype(np.float64), spread=np.zeros(3))):
        assert compare(record(np.zeros_like(want)), record(want), measure=measure).same
    near = np.array([3e-38, 1e-40, 0.0], np.float32)
    for measure in (Measure(), PREFILTER, Measure(reference=near.astype(np.float64), spread=np.zeros(3))):
        assert not compare(record(near * 0), record(near), measure=measure).same


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_statistics_of_tiny_values(dtype: str) -> None:
    stats = {"min": -1e-9, "max": 2e-9, "mean": 1e-10, "nan": 0, "inf": 0}
    want = Record(kind="tensor", dtype=dtype, shape=(9,), sha256="a", stats=stats)
    got = Record(**{**want.__dict__, "sha256": "b", "stats": {**stats, "max": 1e-9}})
    assert not compare(got, want).same
    assert not compare(got, want, measure=PREFILTER).same
    near = Record(**{**want.__dict__, "sha256": "c", "stats": {**stats, "max": 2e-9 * (1 + 1e-14)}})
    assert compare(near, want).same and compare(near, want, measure=PREFILTER).same


# ---- numbers that are no numbers, zeros, complex, integers -----------------------------------------------


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("reference", [None, [1.0, NAN, INF, -INF]])
def test_nan_and_infinity_at_the_same_place_are_equal(reference: list[float] | None) -> None:
    want = np.array([1.0, NAN, INF, -INF], np.float32)
    assert compare_tensors(want.copy(), want, reference=reference) == Comparison(
        same=True,
        max_abs_error=0.0,
        relative=0.0,
        max_ulp=0,
        error_vs_reference=None if reference is None else 0.0,
        eager_error_vs_reference=None if reference is None else 0.0,
    )


@pytest.mark.parametrize(
    ("got", "want", "reason"),
    [
        ([1.0, NAN], [1.0, 2.0], "nan"),
        ([1.0, 2.0], [1.0, NAN], "nan"),
        ([1.0, INF], [1.0, -INF], "values"),
        ([1.0, INF], [1.0, 2.0], "values"),
        ([1.0, 2.0], [1.0, INF], "values"),
        ([1.0, NAN], [1.0, INF], "nan"),
    ],
)
def test_nan_and_infinity_elsewhere_differ(got: list[float], want: list[float], reason: str) -> None:
    one, two = np.array(got, np.float32), np.array(want, np.float32)
    result = compare_tensors(one, two)
    assert (result.same, result.reason, result.first_index) == (False, reason, (1,))
    assert result.max_abs_error == INF


def test_where_eager_overflowed_a_result_near_the_reference_is_better() -> None:
    reference = np.array([70000.0, 1.0])
    eager = np.array([INF, 1.0], np.float32)
    assert compare_tensors(np.array([70000.0, 1.0], np.float32), eager, reference=reference).same
    wrong = compare_tensors(np.array([3.0, 1.0], np.float32), eager, reference=reference)
    assert (wrong.reason, wrong.first_index) == ("values", (0,))
    assert compare_tensors(np.array([NAN, 1.0], np.float32), eager, reference=reference).reason == "nan"


def test_negative_zero_is_zero_unless_asked() -> None:
    got, want = np.array([-0.0, 1.0], np.float32), np.array([0.0, 1.0], np.float32)
    assert compare_tensors(got, want).same
    for reference in (None, want.astype(np.float64)):
        result = compare_tensors(got, want, ComparisonConfig(signed_zero=True), reference=reference)
        assert (result.same, result.first_index) == (False, (0,))


def test_both_parts_of_complex_numbers_count() -> None:
    want = np.array([1 + 1j, 2 - 3j], np.complex64)
    for got in (want + np.complex64(1j), want + np.complex64(1)):
        assert compare_tensors(got, want).max_abs_error == 1.0
        assert not compare_tensors(got, want, reference=want.astype(np.complex128)).same
    mixed = np.array([complex(1, NAN), 2 - 3j], np.complex64)
    assert compare_tensors(mixed.copy(), mixed).same
    assert compare_tensors(mixed, np.array([complex(NAN, 1), 2 - 3j], np.complex64)).same is False


def test_scalars_and_empty_tensors() -> None:
    assert compare_tensors(np.float32(2.0), np.float32(2.0)).same
    result = compare_tensors(np.float32(2.5), np.float32(2.0))
    assert (result.same, result.first_index, result.max_abs_error) == (False, (), 0.5)
    assert compare_tensors(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).same
    assert compare_tensors(np.zeros((0, 3), np.float32), np.zeros((0, 4), np.float32)).reason == "shape"
    assert compare_tensors(np.zeros(0, np.int64), np.zeros(0, np.int64), reference=np.zeros(0)).same


def test_integers_are_exact_however_large() -> None:
    result = compare_tensors(np.array([2**62 + 1, 5]), np.array([2**62, 5]))
    assert (result.same, result.max_abs_error, result.first_index) == (False, 1.0, (0,))
    extremes = np.array([-(2**63), 0]), np.array([2**63 - 1, 0])
    assert compare_tensors(*extremes).max_abs_error == float(2**64 - 1)
    unsigned = np.array([2**64 - 1], np.uint64), np.array([0], np.uint64)
    assert compare_tensors(*unsigned).max_abs_error == float(2**64 - 1)
    assert compare_tensors([True, False], [True, True]).max_abs_error == 1.0


# ---- drift -----------------------------------------------------------------------------------------------


def test_drift_of_type_and_shape_always_differs() -> None:
    a = np.ones((2, 3), np.float32)
    assert compare_tensors(a.astype(np.float64), a).reason == "dtype"
    assert compare_tensors(a.astype(np.int32), a.astype(np.int64)).reason == "dtype"
    assert compare_tensors(a.T, a).reason == "shape"
    assert compare_tensors(a[0], a).detail == "shape (3,) instead of (2, 3)"


def test_strides_are_told_and_count_when_asked() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    other = np.asfortranarray(a)
    result = compare_tensors(other, a)
    assert result.same and result.stride_differs
    asked = compare_tensors(other, a, ComparisonConfig(strides=True))
    assert (asked.same, asked.reason, asked.stride_differs) == (False, "stride", True)
    wrong = compare_tensors(other + 1, a)
    assert (wrong.reason, wrong.stride_differs) == ("values", True)


def test_strides_that_say_nothing_are_not_compared() -> None:
    a = record(np.ones((1, 3), np.float32), stride=(3, 1))
    assert not compare(a, record(np.ones((1, 3), np.float32), stride=(7, 1))).stride_differs
    empty = record(np.ones((0, 3), np.float32), stride=(3, 1))
    assert not compare(empty, record(np.ones((0, 3), np.float32), stride=(1, 0))).stride_differs


def test_kinds_and_types() -> None:
    tensor, none = record(np.ones(2)), Record(kind="value", type="NoneType")
    assert compare(none, tensor).reason == "type"
    assert compare(none, tensor).detail == "NoneType instead of tensor of float64[2]"
    one, two = Record(kind="object", type="a.B"), Record(kind="object", type="a.C")
    assert compare(one, one).same and compare(one, two).reason == "type"
    assert compare(Record(kind="object", type="a.B", dtype="qint8"), one).reason == "dtype"


@pytest.mark.parametrize(
    ("kind", "got", "want", "same"),
    [
        ("int", 3, 3, True),
        ("int", 3, 4, False),
        ("int", 10**30, 10**30, True),
        ("bool", True, False, False),
        ("str", "a", "a", True),
        ("NoneType", None, None, True),
        ("float", 0.1, 0.1 + 1e-8, True),
        ("float", 0.1, 0.11, False),
        ("float", 1e-9, 1e-9 * (1 + 1e-7), True),
        ("float", 0.5e-9, 1e-9, False),
        ("float", 0.5e-30, 1e-30, False),
        ("float", "nan", "nan", True),
        ("float", "inf", "-inf", False),
        ("float", "inf", 1.0, False),
        ("complex", ["1.0", "2.0"], ["1.0", "2.0"], True),
        ("complex", ["1.0", "2.0"], ["1.0", "2.5"], False),
    ],
)
def test_python_values(kind: str, got: Any, want: Any, same: bool) -> None:
    result = compare(Record(kind="value", type=kind, value=got), Record(kind="value", type=kind, value=want))
    assert (result.same, result.reason) == (same, "" if same else "value")


# ---- without values, without a reference -----------------------------------------------------------------


def sampled(array: np.ndarray, step: int) -> Record:
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    stats = {
        "min": float(array.min()),
        "max": float(array.max()),
        "mean": float(array.mean()),
        "nan": 0,
        "inf": 0,
    }
    return record(array, data=array.reshape(-1)[::step], sample_step=step, sha256=digest, stats=stats)


def test_samples_stand_for_what_was_beyond_the_cap() -> None:
    want = GENERATOR.standard_normal((100, 100)).astype(np.float32)
    assert compare(sampled(want.copy(), 10), sampled(want, 10)).same
    rounded = compare(sampled(np.nextafter(want, 9), 10), sampled(want, 10))
    assert rounded.same and rounded.detail == "one element in 10 was compared"
    wrong = want.copy()
    wrong[3, 20] += 1
    result = compare(sampled(wrong, 10), record(want, sha256="x"), want.astype(np.float64))
    assert (result.same, result.first_index) == (False, (3, 20))
    wrong = want.copy()
    wrong[3, 21] += 50  # between the samples: the statistics tell
    assert compare(sampled(wrong, 10), sampled(want, 10)).reason == "values"


def test_statistics_alone() -> None:
    want = GENERATOR.standard_normal(1000).astype(np.float32)

    def bare(array: np.ndarray) -> Record:
        full = sampled(array, 10)
        return record(array, data=None, sha256=full.sha256, stats=full.stats)

    assert compare(bare(want), bare(want)).same
    close = compare(bare(np.nextafter(want, 9)), bare(want))
    assert close.same and close.detail == "compared by statistics only"
    assert compare(bare(want * 2), bare(want)).reason == "values"
    whole = (
        record(want.astype(np.int64), data=None, sha256="a"),
        record(want.astype(np.int64), data=None, sha256="b"),
    )
    assert compare(*whole).reason == "values"
    nan = Record(kind="tensor", dtype="float32", sha256="a", stats={"nan": 1, "inf": 0, "min": 0.0})
    assert (
        compare(nan, Record(**{**nan.__dict__, "sha256": "b", "stats": {**nan.stats, "nan": 0}})).reason
        == "nan"
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_without_a_reference_torch_s_defaults_widened(dtype: str) -> None:
    config = ComparisonConfig()
    assert config.relative(dtype) == TORCH_DEFAULTS[dtype][0] * config.scale[dtype]
    want = np.full(50, 1.0, dtype)
    limit = 2 * config.relative(dtype)  # of the element, and as much of the tensor
    assert compare_tensors((want * (1 + 0.9 * limit)).astype(dtype), want).same
    assert not compare_tensors((want * (1 + 1.5 * limit) + 2 * np.finfo(dtype).eps).astype(dtype), want).same


def test_given_tolerances_are_used() -> None:
    want = np.ones(4, np.float32)
    assert compare_tensors(want + np.float32(0.05), want, ComparisonConfig(rtol=0.1)).same
    assert compare_tensors(want + np.float32(0.05), want, ComparisonConfig(rtol=0.0, atol=0.1)).same
    assert not compare_tensors(want + np.float32(1e-5), want, ComparisonConfig(rtol=0.0, atol=0.0)).same


# ---- types that numpy lacks ------------------------------------------------------------------------------


def test_bfloat16_and_small_floats_are_decoded() -> None:
    raw = np.array([0x3F80, 0xBF80, 0x7F80, 0x7FC0, 0x0001, 0x4049], "<u2").tobytes()
    values = decode(raw, "bfloat16", (2, 3)).reshape(-1)
    assert values[:3].tolist() == [1.0, -1.0, INF] and np.isnan(values[3])
    assert values[4] == 2.0**-133 and values[5] == 3.140625
    e4m3 = decode(bytes([0x38, 0x7E, 0x7F, 0x01, 0xB8]), "float8_e4m3fn", (5,))
    assert e4m3[[0, 1, 3, 4]].tolist() == [1.0, 448.0, 2.0**-9, -1.0] and np.isnan(e4m3[2])
    e5m2 = decode(bytes([0x3C, 0x7B, 0x7C, 0x7D, 0xFC]), "float8_e5m2", (5,))
    assert e5m2[[0, 1, 2, 4]].tolist() == [1.0, 57344.0, INF, -INF] and np.isnan(e5m2[3])
    fnuz = decode(bytes([0x40, 0x80, 0x7F]), "float8_e4m3fnuz", (3,))
    assert fnuz[[0, 2]].tolist() == [1.0, 240.0] and np.isnan(fnuz[1])
    assert decode(bytes([127, 0, 255]), "float8_e8m0fnu", (3,))[:2].tolist() == [1.0, 2.0**-127]
    assert decode(np.array([1, -2], np.float16).tobytes(), "complex32", ()).item() == 1 - 2j
    assert decode(bytes([1, 2]), "bits8", (2,)).tolist() == [1, 2]


@given(
    hnp.arrays("float32", st.integers(1, 20), elements=st.floats(width=32, allow_nan=False)),
    st.integers(0, 40),
)
def test_units_in_the_last_place(array: np.ndarray, steps: int) -> None:
    moved = array
    for _ in range(steps):
        moved = np.nextafter(moved, np.float32(0))
    near_zero = np.abs(array) > 100 * np.finfo(np.float32).smallest_subnormal
    assume(near_zero.all() and np.isfinite(array).all())
    assert ulps_apart(moved, array, "float32") == steps
    assert ulps_apart(array, moved, "float32") == steps


def test_ulps_cross_zero_and_skip_what_is_no_number() -> None:
    tiny = np.finfo(np.float32).smallest_subnormal
    assert ulps_apart(np.array([-tiny]), np.array([tiny]), "float32") == 2
    assert ulps_apart(np.array([-0.0], np.float32), np.array([0.0], np.float32), "float32") == 0
    assert ulps_apart(np.array([NAN], np.float32), np.array([1.0], np.float32), "float32") == 0
    one, next_one = decode(bytes([0x80, 0x3F, 0x81, 0x3F]), "bfloat16", (2,))
    assert ulps_apart(np.array([next_one]), np.array([one]), "bfloat16") == 1
    assert ulps_apart(np.array([1j]), np.array([1j]), "complex64") is None


def test_tensors_of_torch_are_read_without_torch() -> None:
    class Tensor:
        """What the comparison calls of a torch tensor."""

        def __init__(self, array: np.ndarray, dtype: str) -> None:
            self.array, self.dtype, self.shape = array, f"torch.{dtype}", array.shape

        def __getattr__(self, name: str) -> Any:
            if name in ("detach", "cpu", "resolve_conj", "resolve_neg", "contiguous", "float"):
                return lambda: self
            raise AttributeError(name)

        def stride(self) -> tuple[int, ...]:
            return (1,)

        def numpy(self) -> np.ndarray:
            return self.array

    one = Tensor(np.array([1.0, 1.0078125], np.float32), "bfloat16")
    two = Tensor(np.array([1.0, 1.0], np.float32), "bfloat16")
    result = compare_tensors(one, two)
    assert (result.same, result.max_ulp) == (True, 1)
    assert compare_tensors(one, Tensor(two.array, "float32")).reason == "dtype"


@example(values=np.array([7.0203048e-299, 1.0]), power=-10.0, prefilter=False, seed=64)
@given(arrays(st.sampled_from(["float32", "float64"])), st.floats(-18, 1), st.booleans(), st.integers(0, 99))
def test_the_quick_look_at_close_values_changes_no_answer(
    values: Any, power: float, prefilter: bool, seed: int
) -> None:
    """Elements that agree by their own magnitude are not widened; the rule for all of them says the same."""
    assume(values.size)
    want = values
    draws = np.random.default_rng(seed).normal(size=want.shape)
    with np.errstate(all="ignore"):
        got = np.asarray(want * (1 + draws * 10.0**power)).astype(want.dtype)
    got = np.where(draws > 1.5, np.roll(want, 1), got)
    measure, config = Measure(prefilter=prefilter), ComparisonConfig()
    quick = compare(record(got), record(want), measure=measure, config=config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CloseValues, "fit", staticmethod(lambda *_: False))
        slow = compare(record(got), record(want), measure=measure, config=config)
    assert (quick.same, quick.reason, quick.first_index, quick.detail, quick.max_ulp) == (
        slow.same,
        slow.reason,
        slow.first_index,
        slow.detail,
        slow.max_ulp,
    )
    assert quick.max_abs_error == slow.max_abs_error
    assert quick.relative == pytest.approx(slow.relative, rel=1e-5, abs=1e-300)
