"""Tests whether compiling changes values only as another random seed does uncompiled."""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.outcome import Outcome

from .lab import Difference, Lab

RANDOM = "random_numbers"
#: Seeds that the script is run with, uncompiled.
SEEDS = (1, 2, 3)
#: Random numbers explain a difference of at most this many times the one that seeds cause uncompiled.
MOST_TIMES = 8.0


def explained(lab: Lab, compiled: Outcome, plain: Outcome, others: Sequence[Outcome]) -> bool:
    """Whether compiled values differ where other seeds' values do, by at most ``MOST_TIMES`` as much."""
    ours = _values(lab.differences(compiled, plain))
    if ours is None:
        return False
    theirs: dict[tuple[str, int, str, str], float] = {}
    for other in others:
        for difference in _values(lab.differences(other, plain)) or ():
            error = difference.comparison.max_abs_error
            if error is not None:
                theirs[difference.place] = max(error, theirs.get(difference.place, 0.0))
    for difference in ours[:1]:  # errors that follow from the first may grow
        error = difference.comparison.max_abs_error
        if error is None or error > MOST_TIMES * theirs.get(difference.place, 0.0):
            return False
    return True


def _values(differences: Sequence[Difference]) -> list[Difference] | None:
    """Returns the values that differ; None if a shape, a type or an exception differs too.

    Calls cut off by a failed check, and the values they would have left, are ignored.
    """
    compared = [d for d in differences if d.comparison.reason not in ("missing", "extra")]
    return compared if all(d.comparison.reason == "values" for d in compared) else None
