"""The statistics of repeats: bounds that hold for every rate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.search.repeats import Tally, cautious_rate, doubt, passes_needed, runs_to_see


def test_doubt_by_hand() -> None:
    # 5 failures in 5 runs, then 3 passes: the best lucky rate is 5/8, so 5^5 3^3 / 8^8.
    assert doubt(Tally(runs=5, failures=5), 3) == pytest.approx(5**5 * 3**3 / 8**8)


def test_nothing_seen_means_full_doubt() -> None:
    assert doubt(Tally(), 10) == 1.0
    assert doubt(Tally(runs=3, failures=3), 0) == 1.0


@given(st.integers(1, 40), st.data())
def test_more_passes_never_raise_the_doubt(runs: int, data: st.DataObject) -> None:
    failures = data.draw(st.integers(1, runs))
    tally = Tally(runs=runs, failures=failures)
    doubts = [doubt(tally, n) for n in range(1, 30)]
    assert doubts == sorted(doubts, reverse=True)
    assert all(0.0 <= d <= 1.0 for d in doubts)


@given(st.floats(0.05, 1.0), st.integers(1, 12), st.integers(1, 12))
def test_doubt_bounds_the_likelihood_of_luck_at_every_rate(rate: float, runs: int, passes: int) -> None:
    tally = Tally(runs=runs, failures=runs)
    lucky = rate**runs * (1 - rate) ** passes
    assert lucky <= doubt(tally, passes) + 1e-12


@pytest.mark.parametrize("failures", [2, 3, 5, 8, 20])
def test_passes_needed_is_the_least_that_suffices(failures: int) -> None:
    tally = Tally(runs=failures, failures=failures)
    needed = passes_needed(tally, 0.01)
    assert doubt(tally, needed) <= 0.01
    assert needed == 1 or doubt(tally, needed - 1) > 0.01


def test_runs_to_see() -> None:
    assert runs_to_see(1.0, 0.01) == 1
    assert runs_to_see(0.7, 0.01) == math.ceil(math.log(0.01) / math.log(0.3))
    assert runs_to_see(0.0, 0.01) == 60


@given(st.integers(1, 20), st.data())
def test_cautious_rate_lies_below_the_rate_seen(runs: int, data: st.DataObject) -> None:
    failures = data.draw(st.integers(1, runs))
    rate = cautious_rate(Tally(runs=runs, failures=failures))
    assert 0.0 < rate <= failures / runs


def test_cautious_rate_by_hand() -> None:
    # All of n failed: the bound is budget^(1/n).
    assert cautious_rate(Tally(runs=3, failures=3), 0.05) == pytest.approx(0.05 ** (1 / 3), abs=1e-6)
