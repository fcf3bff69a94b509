"""How long the questions that name a part of a stage may take together: a cold search must end, too.

Warm, a question costs a few seconds and their number is the bound. Where each is a run in a fresh process, or
the script itself is slow, the same number would take far longer than the verdict did.
"""

from __future__ import annotations

from dataclasses import dataclass

from accel_lab.search.premise import Baseline

#: So many plain runs may be spent, and a plain run counts for so many seconds at least: a script of a few
#: seconds is bounded by the number of its questions alone.
PLAIN_RUNS = 8
LEAST_PLAIN_S = 30.0


@dataclass(kw_only=True)
class Allowance:
    """Seconds of running that are left to spend; those of a run are its own, whoever ran it and when.

    ``refused`` says that a question was not asked for it.
    """

    seconds: float
    used: float = 0.0
    refused: bool = False

    def spend(self, seconds: float) -> None:
        self.used += seconds

    def has_left(self) -> bool:
        """Whether one more question may be asked; that it may not is remembered."""
        self.refused |= self.used >= self.seconds
        return not self.refused

    def note(self) -> str:
        """What is said where the search ended for want of time; empty where it did not."""
        if not self.refused:
            return ""
        return (
            f"the search for the part at fault ended after {self.used:.0f} s of runs, more than it may take "
            f"({PLAIN_RUNS} plain runs): what was not asked is not ruled out"
        )


def allowance_of(base: Baseline) -> Allowance:
    """What a search may spend on the script of this baseline."""
    plain = max((step.outcome.seconds for step in base.steps[:2]), default=0.0)
    return Allowance(seconds=PLAIN_RUNS * max(plain, LEAST_PLAIN_S))
