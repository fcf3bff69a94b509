"""Finds the rows of a benchmark that became slower than in an earlier one, by a rank test.

A row is slower if its calls rank above the earlier ones at a significance level shared by all rows, and its
median grew by more than ``LEAST_CHANGE``. If the interleaved eager calls grew as well, so that the times
relative to eager did not, the machine is slower and not the backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from accel_lab.core.benchmark import Change, Measurement, RowChange, RowStatus

from .rank_test import chance_larger, least_chance

#: The chance of a false alarm over all rows together.
LEVEL = 0.01
#: Minimum relative change of a median to be reported, whatever the ranks say.
LEAST_CHANGE = 0.05


@dataclass(frozen=True, kw_only=True)
class BaseRow:
    """A row of the earlier benchmark: the milliseconds of its calls and of the interleaved eager calls."""

    standing: str
    samples_ms: tuple[float, ...] = ()
    eager_samples_ms: tuple[float, ...] = ()


Key = tuple[str, str]


def compared(rows: Sequence[Measurement], base: Mapping[Key, BaseRow]) -> tuple[RowChange, ...]:
    """Compares every row of either benchmark: the new ones in their order, then those that are gone."""
    rows = [row for row in rows if row.backend]
    shared = LEVEL / max(1, sum((row.model, row.backend) in base for row in rows))
    found = [_row(row, base.get((row.model, row.backend)), shared) for row in rows]
    known = {(row.model, row.backend) for row in rows}
    found += [RowChange(model=m, backend=b, change=Change.GONE) for m, b in base if b and (m, b) not in known]
    return tuple(found)


def _row(row: Measurement, base: BaseRow | None, level: float) -> RowChange:
    if base is None:
        return RowChange(model=row.model, backend=row.backend, change=Change.NEW)
    if base.standing == RowStatus.OK.value and row.standing in (RowStatus.FAILED, RowStatus.DIFFERS):
        words = f"it was ok; now {row.standing.value}: {row.reason}"
        return RowChange(model=row.model, backend=row.backend, change=Change.BROKEN, words=words)
    now, then = row.samples_ms, base.samples_ms
    if not now or not then:
        return RowChange(model=row.model, backend=row.backend, change=Change.TOO_FEW)
    ratio = median(now) / median(then) if median(then) else 1.0
    slower, faster = chance_larger(now, then), chance_larger(then, now)
    change = Change.SAME
    if least_chance(len(now), len(then)) > level and abs(ratio - 1.0) > LEAST_CHANGE:
        change = Change.TOO_FEW
    elif slower <= level and ratio > 1.0 + LEAST_CHANGE:
        change = Change.SLOWER if _slower_relative_to_eager(row, base, level) else Change.MACHINE
    elif faster <= level and ratio < 1.0 - LEAST_CHANGE:
        change = Change.FASTER
    return RowChange(
        model=row.model,
        backend=row.backend,
        change=change,
        base_ms=median(then),
        now_ms=median(now),
        ratio=ratio,
        chance=min(slower, faster),
    )


def _slower_relative_to_eager(row: Measurement, base: BaseRow, level: float) -> bool:
    """Whether the times relative to eager grew too; True if there are no eager times to compare."""
    now = _over(row.samples_ms, row.eager_samples_ms)
    then = _over(base.samples_ms, base.eager_samples_ms)
    if not now or not then:
        return True
    return chance_larger(now, then) <= level and median(now) > median(then) * (1.0 + LEAST_CHANGE)


def _over(samples: Sequence[float], eager: Sequence[float]) -> list[float]:
    if len(samples) != len(eager):
        return []
    return [one / other for one, other in zip(samples, eager, strict=True) if other]
