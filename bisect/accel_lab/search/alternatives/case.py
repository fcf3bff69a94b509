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
    """When an alternative is tested: before the stage is opened, or once its component is known."""

    STAGE = "stage"
    COMPONENT = "component"

    def __str__(self) -> str:
        return self.value


@dataclass(kw_only=True)
class Case:
    """A failure with its ladder.

    ``start`` is the first failing rung. ``stage`` is what that rung blames or, at ``Moment.COMPONENT``, the
    localized stage; ``localization`` is then the result of localizing it. ``considered`` are the alternatives
    tested so far.
    """

    runner: LadderRunner
    ladder: list[Step]
    reading: Reading
    start: Rung
    stage: Stage
    localization: Localization = field(default_factory=Localization)
    considered: list[Considered] = field(default_factory=list)

    def row(self, rung: Rung) -> Step | None:
        """Returns the row of a rung, or None if it was not run."""
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
        """The row of the first failing rung."""
        row = self.row(self.start)
        assert row is not None
        return row

    @property
    def component(self) -> Component | None:
        return self.localization.component


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Result of testing an alternative.

    ``considered`` says whether it is open. ``culprit`` is set if the fault is there; ``passing_run`` is then
    the run that passed with only that corrected (None: the culprit is at most likely). ``isolates`` says that
    only the culprit's component was corrected, one of ``comparisons`` candidates. ``by_design`` says that it
    is not a fault, ``outside`` why no rung reaches it. ``held`` are switches to run the ladder with once more
    before ``outside`` is reported. ``unrecorded`` says that recording causes the failure, so the ladder runs
    without it. ``row`` is a run to insert into the ladder after the rung ``AOT``. ``warnings`` are shown to
    the user.
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


#: Result of an alternative that does not apply.
NOTHING = Ruling()


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """One known way in which a stage is blamed for another stage's fault.

    ``stages`` are the stages wrongly blamed. ``issue`` is the public issue that showed it. ``applies`` reads
    only what is already known; ``ask`` may run the script.
    """

    name: str
    issue: str
    stages: frozenset[Stage]
    moment: Moment
    ask: Callable[[Case], Ruling]
    applies: Callable[[Case], bool] = lambda case: True
