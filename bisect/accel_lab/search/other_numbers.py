"""Other random numbers: does compiling change values only as another seed does, uncompiled?"""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.outcome import Outcome

from .lab import Difference, Lab

RANDOM = "random_numbers"
#: How many other seeds a script is tried with, uncompiled.
SEEDS = (1, 2, 3)
#: Other random numbers explain a difference that is at most so many times as large as they make uncompiled.
MOST_TIMES = 8.0


def explained(lab: Lab, compiled: Outcome, plain: Outcome, others: Sequence[Outcome]) -> bool:
    """Whether the compiled values differ from eager's where, and about as far as, another seed's do."""
    ours = _values(lab.differences(compiled, plain))
    if ours is None:
        return False
    theirs: dict[tuple[str, int, str, str], float] = {}
    for other in others:
        for difference in _values(lab.differences(other, plain)) or ():
            error = difference.comparison.max_abs_error
            if error is not None:
                theirs[difference.place] = max(error, theirs.get(difference.place, 0.0))
    for difference in ours[:1]:  # what follows from the first may grow
        error = difference.comparison.max_abs_error
        if error is None or error > MOST_TIMES * theirs.get(difference.place, 0.0):
            return False
    return True


def _values(differences: Sequence[Difference]) -> list[Difference] | None:
    """The values that differ; None where more than numbers does: a shape, a type, an exception.

    Calls that a failed check cut off, and what they would have left, say nothing.
    """
    compared = [d for d in differences if d.comparison.reason not in ("missing", "extra")]
    return compared if all(d.comparison.reason == "values" for d in compared) else None
