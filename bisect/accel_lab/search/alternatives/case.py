"""The types of an alternative: its case, its ruling, its registration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import ByDesign, Component, Considered, Culprit, Step
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder import Reading
from accel_lab.search.ladder_runner import LadderRunner, Switches
from accel_lab.search.localize.localization import Localization


class Moment(str, Enum):
    """When an alternative is asked: before the stage is opened, or once its component is known."""

    STAGE = "stage"
    COMPONENT = "component"

    def __str__(self) -> str:
        return self.value


@dataclass(kw_only=True)
class Case:
    """A failure on its ladder.

    ``start`` is the first rung that fails, ``stage`` what that rung blames or, at ``Moment.COMPONENT``, the
    stage that was localized; ``localization`` is then what was found inside.
    """

    runner: LadderRunner
    ladder: list[Step]
    reading: Reading
    start: Rung
    stage: Stage
    localization: Localization = field(default_factory=Localization)

    def row(self, rung: Rung) -> Step | None:
        """The row of a rung, if it was asked."""
        return next((step for step in self.ladder if step.rung is rung), None)

    @property
    def fails_uncompiled(self) -> bool:
        """Whether the script fails in the same way with nothing compiled, and not now and then.

        Values that differ are no failure of the script's own: they only vary from run to run.
        """
        row, base = self.row(Rung.UNCOMPILED), self.runner.baseline
        by_itself = base.target is None or base.target.kind != "values"
        return by_itself and row is not None and row.verdict is Verdict.BAD and not base.flaky

    @property
    def at(self) -> Step:
        """The row of the first rung that fails."""
        row = self.row(self.start)
        assert row is not None
        return row

    @property
    def component(self) -> Component | None:
        return self.localization.component


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What became of an alternative.

    ``considered`` says whether it is open; ``culprit`` is given where the fault is there, ``passing_run`` is
    then the run that passed with only that corrected (none: the culprit is likely at most).
    ``isolates`` says that it corrected the culprit's component alone, one of so many ``comparisons``.
    ``by_design`` says that it is no fault at all, ``outside`` that no rung reaches it, and why.
    ``held`` are switches with which the ladder may be asked once more before that is said.
    ``unrecorded`` says that the recording makes the failure, so the ladder is to be asked without one.
    ``row`` is a run that belongs on the ladder, behind the rung ``AOT``. ``warnings`` are for the reader.
    """

    considered: Considered | None = None
    culprit: Culprit | None = None
    by_design: ByDesign | None = None
    outside: str = ""
    held: Switches = ()
    unrecorded: bool = False
    passing_run: Step | None = None
    isolates: bool = False
    comparisons: int = 1
    row: Step | None = None
    warnings: tuple[Evidence, ...] = ()


#: Answered by an alternative that does not apply.
NOTHING = Ruling()


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One way in which the stage could be blamed for another stage's fault.

    ``stages`` are those that it could be mistaken for. ``issue`` is the public report that taught it.
    ``applies`` is a look at what is known already; ``ask`` may run the script.
    """

    name: str
    issue: str
    stages: frozenset[Stage]
    moment: Moment
    ask: Callable[[Case], Ruling]
    applies: Callable[[Case], bool] = lambda case: True
