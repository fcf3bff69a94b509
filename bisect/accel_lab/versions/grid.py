"""Runs releases by rungs: every rung of the ladder, and accelerators, on every release of a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import LADDER, Rung
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.search.accelerator.accelerator import accelerator_named
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.lab import Difference, Lab
from accel_lab.search.ladder_runner import Switches
from accel_lab.search.premise import values_signature
from accel_lab.search.silent import only_random
from accel_lab.search.timeline.matrix import Cell, Matrix, columns_in_order

from .release_session import ReleaseListener, ReleaseSession, ReleaseSessions, describe, silent
from .remote_release import RemoteLost
from .remote_session import answered

SCHEMA = "accel-lab/matrix/1"
#: The lab's own accelerator; any other name is an adapter's.
MOCK = "mock"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One way to run the script: a rung of the ladder, or an accelerator."""

    name: str
    rung: Rung
    switches: Switches = ()


@dataclass(frozen=True, kw_only=True)
class Raw:
    """One run before it is judged; its verdict depends on the target failure."""

    outcome: Outcome
    signature: Signature | None = None
    differences: Sequence[Difference] = ()
    why: str = ""

    @property
    def fails(self) -> bool:
        return self.signature is not None


@dataclass(kw_only=True)
class Grid:
    """The runs of a grid. ``missing`` maps releases without an environment to the reason."""

    releases: tuple[str, ...]
    columns: tuple[Column, ...]
    raw: dict[tuple[str, str], Raw] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    target: Signature | None = None
    values: Sequence[Difference] = ()
    seen_on: str = ""

    def judged(self, lab: Lab, root: Path) -> Matrix:
        """Judges the grid by the failure at the highest failing rung of the newest release failing there."""
        self._choose()
        cells = {place: self._cell(lab, raw, root) for place, raw in self.raw.items()}
        for release, why in self.missing.items():
            for column in self.columns:
                cells[release, column.name] = Cell(verdict=Verdict.SKIP, why=why)
        return Matrix(
            releases=self.releases,
            columns=columns_in_order(column.name for column in self.columns),
            cells=cells,
        )

    def _choose(self) -> None:
        names = columns_in_order(column.name for column in self.columns)
        ladder = [name for name in names if name in {rung.value for rung in LADDER}]
        others = [name for name in names if name not in ladder]
        for column in (*reversed(ladder), *others):
            for release in reversed(self.releases):
                raw = self.raw.get((release, column))
                if raw is not None and raw.fails and not self._eager(release):
                    self.target, self.values, self.seen_on = raw.signature, raw.differences, release
                    return

    def _eager(self, release: str) -> bool:
        """Whether the script fails uncompiled on the release, so that no higher rung is conclusive."""
        raw = self.raw.get((release, Rung.UNCOMPILED.value))
        return raw is not None and raw.fails

    def _cell(self, lab: Lab, raw: Raw, root: Path) -> Cell:
        verdict, why = self._verdict(lab, raw), raw.why
        if not raw.outcome.was_run:
            why = "; ".join(raw.outcome.notes) or why
        errors = [
            d.comparison.max_abs_error for d in raw.differences if d.comparison.max_abs_error is not None
        ]
        return Cell(
            verdict=verdict,
            status=raw.outcome.status,
            signature=raw.signature.line if raw.signature is not None else "",
            why=why,
            seconds=raw.outcome.seconds,
            max_abs_error=max(errors, default=None),
            folder=relative(raw.outcome.folder, root),
        )

    def _verdict(self, lab: Lab, raw: Raw) -> Verdict:
        if not raw.outcome.was_run:
            return Verdict.SKIP
        if raw.signature is None:
            return Verdict.GOOD
        if self.target is None:
            return Verdict.DIFFERENT
        if self.target.kind == "values" and raw.signature.kind == "values":
            same = lab.same_differences(raw.differences, self.values)
            return Verdict.BAD if same else Verdict.DIFFERENT
        return judge(raw.outcome, self.target, raw.signature)


class GridRun:
    """Runs a grid; after an interruption ``grid`` keeps the finished runs."""

    def __init__(
        self,
        sessions: ReleaseSessions,
        releases: Sequence[str],
        columns: Iterable[Column],
        *,
        side_by_side: int = 2,
        listener: ReleaseListener = silent,
    ) -> None:
        self._sessions = sessions
        self._side_by_side = side_by_side
        self._listener = listener
        self.grid = Grid(releases=tuple(releases), columns=tuple(columns))
        self._lab: Lab | None = None
        self._environments: dict[str, Any] = {}

    def run(self) -> Matrix:
        """Runs all cells and returns them judged."""
        with ThreadPoolExecutor(max_workers=self._side_by_side, thread_name_prefix="grid") as pool:
            jobs = [pool.submit(self._release, release) for release in reversed(self.grid.releases)]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                self._sessions.interrupt()
                raise
        return self.matrix()

    def matrix(self) -> Matrix:
        """Returns what is known so far; if no release could run, only the reasons."""
        if self._lab is None:
            empty = {
                (release, column.name): Cell(verdict=Verdict.SKIP, why=why)
                for release, why in self.grid.missing.items()
                for column in self.grid.columns
            }
            names = columns_in_order(column.name for column in self.grid.columns)
            return Matrix(releases=self.grid.releases, columns=names, cells=empty)
        return self.grid.judged(self._lab, self._sessions.setting.folder)

    def to_json(self, program: Program, *, seconds: float, notes: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the object of ``reporting/matrix.schema.json``."""
        matrix = self.matrix()
        target = self.grid.target
        return {
            "schema": SCHEMA,
            "script": program.to_json(),
            "signature": target.to_json() if target is not None else None,
            "seen_on": self.grid.seen_on,
            "matrix": matrix.to_json(),
            "sentences": matrix.sentences(),
            "environments": self._environments,
            "notes": list(notes),
            "artifacts": str(self._sessions.setting.folder),
            "seconds": {"total": round(seconds, 3), "probes": round(self._sessions.seconds, 3)},
            "probes": self._sessions.asked,
        }

    def _release(self, version: str) -> None:
        try:
            answered(self._sessions, version, self._row, listener=self._listener)
        except (Interrupted, RemoteLost):
            raise
        except LabError as error:
            self.grid.missing[version] = str(error)
            self._listener("judged", version, f"skip: {error}")

    def _row(self, session: ReleaseSession) -> None:
        """Runs one release: the kernel rung cold, the others warm if the warm server agrees with it."""
        lab, probe = session.lab, session.probe
        self._environments[session.version] = describe(session.environment)
        search = BaselineSearch(lab, probe)
        base = search.first_runs(meanwhile=lab.warm_up, silent=False)
        if base.target is not None:
            search.warm(base)
        top = base.steps[1].outcome
        jobs = [
            (column, lab.submit(replace(probe, rung=column.rung, switches=column.switches)))
            for column in self.grid.columns
            if column.rung is not Rung.KERNEL
        ]
        outcomes = {column.name: job.result() for column, job in jobs}
        outcomes.update({c.name: top for c in self.grid.columns if c.rung is Rung.KERNEL})
        compared = _Compared(lab, probe, outcomes.get(Rung.UNCOMPILED.value))
        for name, outcome in outcomes.items():
            self.grid.raw[session.version, name] = compared.raw(outcome, name)
        self._lab = self._lab or lab
        failing = [name for name in outcomes if self.grid.raw[session.version, name].fails]
        self._listener("judged", session.version, f"fails at {', '.join(failing)}" if failing else "passes")


class _Compared:
    """Compares recorded values of a release's runs with its own uncompiled run and float64 reference."""

    def __init__(self, lab: Lab, probe: Probe, uncompiled: Outcome | None) -> None:
        self._lab = lab
        self._probe = probe
        self._uncompiled = uncompiled if uncompiled is not None and uncompiled.status is Status.OK else None
        self._reference: Outcome | None = None
        self._reference_made = False

    def raw(self, outcome: Outcome, name: str) -> Raw:
        """Returns the run with its failure: its own, or wrong values."""
        signature = self._lab.signature(outcome)
        silent = signature is None and outcome.status is Status.OK and name != Rung.UNCOMPILED.value
        if not silent or self._uncompiled is None:
            return Raw(outcome=outcome, signature=signature)
        if self._lab.agreement(outcome, self._uncompiled) is not None:
            return Raw(outcome=outcome)
        different = self._lab.differences(outcome, self._uncompiled, self._twin())
        if not different:
            return Raw(outcome=outcome)
        if outcome.facts.get("random", True) and self._only_random(outcome, name):
            return Raw(outcome=outcome, why="draws other random numbers by design")
        return Raw(outcome=outcome, signature=values_signature(different), differences=different)

    def _twin(self) -> Outcome | None:
        if not self._reference_made:
            self._reference_made = True
            twin = self._lab.submit(
                replace(self._probe, rung=Rung.UNCOMPILED, switches=(("shadow", True),))
            ).result()
            self._reference = twin if twin.status is Status.OK else None
        return self._reference

    def _only_random(self, outcome: Outcome, name: str) -> bool:
        """Whether the values differ only as other random numbers do."""
        assert self._uncompiled is not None
        if name not in {rung.value for rung in LADDER}:
            return False
        probe = replace(self._probe, rung=Rung(name))
        return only_random(self._lab, probe, outcome, self._uncompiled, self._reference)


def columns_of(rungs: Sequence[Rung], accelerators: Sequence[str]) -> tuple[Column, ...]:
    """Returns the columns of a grid: rungs of the ladder, then accelerators by name."""
    columns = [Column(name=rung.value, rung=rung) for rung in rungs]
    for name in accelerators:
        accelerator = accelerator_named(name)
        columns.append(Column(name=name, rung=accelerator.rung, switches=accelerator.switches()))
    return tuple(columns)


def relative(folder: str, root: Path) -> str:
    """Returns a probe's folder relative to the run's own folder, for a link."""
    try:
        return Path(folder).relative_to(root).as_posix()
    except ValueError:
        return folder
