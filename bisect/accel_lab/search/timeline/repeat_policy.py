"""Decides how often each release of a line is run for a flaky script, and what a pass is worth.

One failure of the same kind shows that a release has the fault. Passes show its absence only up to chance,
and one wrong verdict leads a bisection astray. So all verdicts that the answer rests on share the error
budget, and each release gets as many runs as its share requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from accel_lab.core.verdict import Verdict
from accel_lab.search.repeats import Tally, doubt, passes_needed

from .plan import grid_points, steps_needed


def chain_length(releases: int, grid: int | None = None) -> int:
    """Returns the number of verdicts that one flip may rest on: the ends, the grid, the bisection."""
    points = grid_points(releases, grid)
    widest = -(-max(0, releases - 1) // (len(points) + 1))
    return min(releases, 2 + len(points) + steps_needed(widest))


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often a release is run.

    ``failing`` are the runs of releases that surely have the fault. ``budget`` is the chance of error allowed
    for the whole chain of ``verdicts``.
    """

    failing: Tally
    verdicts: int
    budget: float = 0.05
    most: int = 60

    @property
    def flaky(self) -> bool:
        """Whether some runs with the fault passed; otherwise one run settles a release."""
        return 0 < self.failing.failures < self.failing.runs

    @cached_property
    def passes(self) -> int:
        """Runs that must all pass before a release may be called good."""
        if not self.flaky:
            return 1
        return passes_needed(self.failing, self.budget / max(1, self.verdicts), self.most)

    def enough(self, runs: Tally) -> bool:
        """Whether these runs of one release settle it: a failure, or enough passes."""
        return runs.failures > 0 or runs.runs >= self.passes

    def verdict(self, runs: Tally) -> Verdict:
        """Returns BAD after one failure, GOOD after enough passes, and SKIP in between."""
        if runs.failures:
            return Verdict.BAD
        return Verdict.GOOD if runs.runs and self.error(runs) <= self._share else Verdict.SKIP

    def error(self, runs: Tally) -> float:
        """Returns a bound on the chance that the verdict on this release is wrong (``Tested.error``)."""
        if runs.failures or not self.flaky:
            return 0.0
        return doubt(self.failing, runs.runs)

    def seen(self, runs: Tally) -> Patience:
        """Returns a Patience that also counts the runs of another release with the fault."""
        if not runs.failures:
            return self
        return Patience(
            failing=self.failing.plus(runs), verdicts=self.verdicts, budget=self.budget, most=self.most
        )

    @property
    def _share(self) -> float:
        return self.budget / max(1, self.verdicts)
