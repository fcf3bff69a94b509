"""Reads a ladder: the rung at which the failure starts, whether it is monotone, what stays open.

Reading is a pure function of the verdicts, lowest rung first: it finds where the unbroken failures at the top
begin. Failures below a passing rung are reported, and rungs that failed in another way are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered, Step
from accel_lab.core.stages import LONG_LADDER, Confidence, Rung
from accel_lab.core.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a ladder's verdicts say.

    ``last_good`` and ``first_bad`` are neighbours once the inconclusive rungs are left out. ``different`` are
    the rungs between them that failed in another way. ``non_monotone`` are rungs below ``last_good`` that
    failed.
    """

    first_bad: Rung | None
    last_good: Rung | None
    different: tuple[Rung, ...] = ()
    non_monotone: tuple[Rung, ...] = ()

    @property
    def start(self) -> Rung | None:
        """The first rung of the unbroken failures at the top, whatever the kind of failure."""
        return self.different[0] if self.different else self.first_bad

    def alternatives(self) -> list[Considered]:
        """Returns the alternatives that the ladder itself leaves open."""
        alternatives = []
        if self.non_monotone:
            why = Evidence.of(
                EvidenceKind.LADDER_NOT_MONOTONE, rungs=self.non_monotone, above=str(self.last_good)
            )
            alternatives.append(
                Considered(name="not_monotone", open=True, why=why, limit=Confidence.INCONCLUSIVE)
            )
        if self.different:
            why = Evidence.of(EvidenceKind.RUNGS_FAIL_DIFFERENTLY, rungs=self.different)
            alternatives.append(Considered(name="another_failure", open=True, why=why))
        return alternatives


def read(rows: Sequence[tuple[Rung, Verdict]]) -> Reading:
    """Reads verdicts, given lowest rung first; inconclusive ones are ignored."""
    judged = [(rung, verdict) for rung, verdict in rows if verdict is not Verdict.SKIP]
    top = len(judged)
    while top > 0 and judged[top - 1][1] is not Verdict.GOOD:
        top -= 1
    failing = judged[top:]
    below = judged[:top]
    bad = [rung for rung, verdict in failing if verdict is Verdict.BAD]
    return Reading(
        first_bad=bad[0] if bad else None,
        last_good=below[-1][0] if below else None,
        different=tuple(
            rung
            for rung, verdict in failing
            if verdict is Verdict.DIFFERENT and (not bad or _before(failing, rung, bad[0]))
        ),
        non_monotone=tuple(rung for rung, verdict in below if verdict is not Verdict.GOOD),
    )


def _before(rows: Sequence[tuple[Rung, Verdict]], one: Rung, two: Rung) -> bool:
    order = [rung for rung, _ in rows]
    return order.index(one) < order.index(two)


def read_steps(ladder: Sequence[Step]) -> Reading:
    """Reads a ladder's rows; the meta kernel check is not a rung and is left out."""
    return read([(step.rung, step.verdict) for step in ladder if step.rung is not Rung.META])


def row(ladder: Sequence[Step], rung: Rung | None) -> Step:
    """Returns the row of a rung that was run."""
    return next(step for step in ladder if step.rung is rung)


def with_row(ladder: Sequence[Step], step: Step) -> list[Step]:
    """Returns the ladder with one row replaced."""
    return [step if each.rung is step.rung else each for each in ladder]


def index(rung: Rung) -> int:
    """Returns the position of a rung in the ladder; -1 for a check that is not part of it."""
    return LONG_LADDER.index(rung) if rung in LONG_LADDER else -1


def between(ladder: Sequence[Step], missing: Sequence[Rung]) -> str:
    """Describes an incomplete ladder in words; no stage is named from it."""
    reading = read_steps([step for step in ladder if step.rung not in missing])
    passes = f"passes at {reading.last_good} and fails" if reading.last_good is not None else "fails"
    return (
        f"out of time before the ladder was complete: the script {passes} at "
        f"{reading.start or Rung.KERNEL}, and {', '.join(rung.value for rung in missing)} "
        f"{'was' if len(missing) == 1 else 'were'} not run, so no stage is named"
    )
