"""The division of kernels over cores and steps: even, complete, and small enough for the scratchpad."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accel_lab.mock import faults  # noqa: E402
from accel_lab.mock.device import Device  # noqa: E402
from accel_lab.mock.frontend.tiling import Axis, divide, divisors, next_step  # noqa: E402
from mock_front_end_cases import check, lowered  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.VARIABLE, raising=False)


axes = st.lists(
    st.builds(Axis, extent=st.integers(0, 300), divisible=st.booleans(), unit=st.sampled_from([1, 32])),
    max_size=4,
)


@settings(deadline=None)
@given(axes, st.integers(1, 64))
def test_the_division_is_even_and_within_the_cores(found: list[Axis], cores: int) -> None:
    shares = divide(found, cores)
    assert math.prod(shares) <= cores
    for axis, share in zip(found, shares, strict=True):
        assert axis.extent % share == 0
        assert share == 1 or (axis.divisible and axis.extent // share % axis.unit == 0)


@settings(deadline=None)
@given(axes, st.integers(1, 64))
def test_steps_end_at_one_element_and_stay_even(found: list[Axis], cores: int) -> None:
    shares, steps = divide(found, cores), [1] * len(found)
    for _ in range(100):
        after = next_step(found, shares, steps)
        if after is None:
            break
        steps = after
        for axis, core, step in zip(found, shares, steps, strict=True):
            assert axis.extent % (core * step) == 0
    assert next_step(found, shares, steps) is None


def test_outer_dimensions_come_first() -> None:
    assert divide([Axis(extent=12, divisible=True), Axis(extent=8, divisible=True)], 32) == [12, 2]
    assert divide([Axis(extent=67, divisible=True), Axis(extent=8, divisible=True)], 32) == [1, 8]
    assert divisors(12) == [1, 2, 3, 4, 6, 12]


def test_a_small_scratchpad_makes_steps_and_the_result_stays() -> None:
    device = Device(memory_bytes=2**26, scratchpad_bytes=4096, cores=2)
    program = check(lambda x: ((x * 2 + 1) * x.exp() - x).sum(1), torch.randn(48, 200), device=device)
    assert max(math.prod(dim.steps for dim in spec.space) for spec in program.kernels) > 1


def test_a_row_that_fits_no_scratchpad_goes_to_main_memory() -> None:
    device = Device(memory_bytes=2**26, scratchpad_bytes=256)
    program = check(lambda x: (x * 2 + 1).sum(1), torch.randn(3, 500), device=device)
    (spec,) = [spec for spec in program.kernels if spec.unit == "reduction"]
    assert {operand.memory for operand in spec.operands} == {"hbm"}


def test_reduced_dimensions_are_never_divided() -> None:
    for spec in lowered(lambda x: (x.sum(0), x.sum(1), x @ x.t()), torch.randn(64, 64)).kernels:
        assert all(dim.cores == dim.steps == 1 for dim in spec.space if dim.reduced)


def test_the_fault_leaves_part_of_an_odd_extent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "split_gcd_collapsed")
    assert divide([Axis(extent=67, divisible=True)], 32) == [32]
