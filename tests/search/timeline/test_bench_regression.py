"""Which rows of a benchmark are slower than those of an earlier one, and which only seem so."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.benchmark import Change, Measurement, RowChange, RowStatus
from accel_lab.search.timeline.bench_regression import BaseRow, compared

STEADY = (10.0, 10.1, 9.9, 10.2, 10.0, 9.8, 10.1, 10.0)


def row(samples: Sequence[float] = STEADY, eager: Sequence[float] = (), **changes: object) -> Measurement:
    found = {"model": "ssm", "backend": "aot", "standing": RowStatus.OK, **changes}
    return Measurement(samples_ms=tuple(samples), eager_samples_ms=tuple(eager), **found)  # type: ignore[arg-type]


def base(samples: Sequence[float] = STEADY, eager: Sequence[float] = (), standing: str = "ok") -> BaseRow:
    return BaseRow(standing=standing, samples_ms=tuple(samples), eager_samples_ms=tuple(eager))


def change(now: Measurement, then: BaseRow) -> RowChange:
    (found,) = compared([now], {(now.model, now.backend): then})
    return found


def scaled(factor: float) -> list[float]:
    return [factor * sample for sample in STEADY]


def test_slower_and_faster_are_told_by_ranks() -> None:
    found = change(row(scaled(1.5)), base())
    assert found.change is Change.SLOWER and found.ratio == 1.5
    assert found.chance is not None and found.chance < 1e-3
    assert change(row(scaled(0.5)), base()).change is Change.FASTER
    assert change(row(), base()).change is Change.SAME
    # Every call is slower, by too little to matter.
    assert change(row(scaled(1.04)), base()).change is Change.SAME
    # One call in eight takes a hundred times as long: no reason to cry.
    assert change(row([*STEADY[:-1], 1000.0]), base()).change is Change.SAME


def test_a_slower_machine_is_no_regression() -> None:
    found = change(row(scaled(1.5), scaled(3.0)), base(eager=scaled(2.0)))
    assert found.change is Change.MACHINE
    # The backend lost more than the machine did.
    assert change(row(scaled(3.0), scaled(3.0)), base(eager=scaled(2.0))).change is Change.SLOWER


def test_few_calls_prove_nothing() -> None:
    assert change(row([30.0, 31.0, 32.0]), base([10.0, 11.0, 12.0])).change is Change.TOO_FEW
    assert change(row([10.0, 11.0, 12.0]), base([10.0, 11.0, 12.0])).change is Change.SAME
    assert change(row(()), base()).change is Change.TOO_FEW


def test_a_row_that_is_no_longer_right_is_a_regression_whatever_its_times() -> None:
    wrong = row(scaled(0.5), standing=RowStatus.DIFFERS, reason="output: error 0.5")
    found = change(wrong, base())
    assert found.change is Change.BROKEN and "output: error 0.5" in found.words
    assert change(wrong, base(standing="differs")).change is Change.FASTER


def test_rows_of_one_side_only_are_told() -> None:
    skipped = row(backend="", standing=RowStatus.SKIPPED)
    found = compared([row(), skipped], {("bert", "mock"): base(), ("bert", ""): base()})
    assert [(one.model, one.backend, one.change) for one in found] == [
        ("ssm", "aot", Change.NEW),
        ("bert", "mock", Change.GONE),
    ]


def test_many_rows_share_the_level() -> None:
    five, slow = STEADY[:5], scaled(1.5)[:5]
    alone = compared([row(slow)], {("ssm", "aot"): base(five)})
    assert alone[0].change is Change.SLOWER
    rows = [row(slow, backend=f"b{n}") for n in range(20)]
    many = compared(rows, {("ssm", f"b{n}"): base(five) for n in range(20)})
    assert {one.change for one in many} == {Change.TOO_FEW}


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=12))
def test_a_benchmark_against_itself_has_no_regression(samples: list[float]) -> None:
    assert change(row(samples), base(samples)).change in (Change.SAME, Change.TOO_FEW)
