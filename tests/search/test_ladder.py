"""Reading a ladder: where the failure starts, and what is not forced into an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.stages import LADDER, Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder import read

G, B, D, S = Verdict.GOOD, Verdict.BAD, Verdict.DIFFERENT, Verdict.SKIP


def rows(*verdicts: Verdict) -> list[tuple[Rung, Verdict]]:
    return list(zip(LADDER, verdicts, strict=True))


def test_plain() -> None:
    reading = read(rows(G, G, G, G, B, B, B))
    assert (reading.last_good, reading.first_bad) == (Rung.PARTITION, Rung.DECOMP)
    assert not reading.non_monotone


def test_fails_without_the_compiler() -> None:
    reading = read(rows(B, B, B, B, B, B, B))
    assert (reading.last_good, reading.first_bad) == (None, Rung.UNCOMPILED)


def test_a_failure_below_a_pass_is_reported_and_not_blamed() -> None:
    reading = read(rows(G, B, G, G, G, G, B))
    assert reading.first_bad is Rung.KERNEL
    assert reading.non_monotone == (Rung.DYNAMO,)


def test_another_failure_below_the_same_one_is_kept_apart() -> None:
    reading = read(rows(G, G, G, G, G, D, B))
    assert reading.different == (Rung.FX,)
    assert (reading.last_good, reading.first_bad) == (Rung.DECOMP, Rung.KERNEL)


def test_a_skipped_rung_does_not_count() -> None:
    reading = read(rows(G, G, S, S, S, S, B))
    assert (reading.last_good, reading.first_bad) == (Rung.DYNAMO, Rung.KERNEL)


def test_nothing_fails() -> None:
    assert read(rows(G, G, G, G, G, G, G)).first_bad is None


@given(st.integers(0, len(LADDER) - 1))
def test_every_single_step_is_found(start: int) -> None:
    reading = read([(rung, B if n >= start else G) for n, rung in enumerate(LADDER)])
    assert reading.first_bad is LADDER[start]
    assert reading.last_good is (LADDER[start - 1] if start else None)
    assert not reading.non_monotone


@given(st.lists(st.sampled_from([G, B, D, S]), min_size=7, max_size=7))
def test_reading_is_consistent_on_any_ladder(verdicts: list[Verdict]) -> None:
    table = dict(rows(*verdicts))
    reading = read(rows(*verdicts))
    if reading.first_bad is not None:
        above = LADDER[LADDER.index(reading.first_bad) :]
        assert all(table[rung] is not G for rung in above)
        assert table[reading.first_bad] is B
    if reading.last_good is not None:
        assert table[reading.last_good] is G
