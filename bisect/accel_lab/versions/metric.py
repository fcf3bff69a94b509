"""Follows a number instead of a failure: measures each release in its own runs until the search is sure."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import Environment, EnvironmentUnavailable
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.releases.flip_details import FlipDetails, MetricPair, SideRow
from accel_lab.core.releases.versions import Flip, TargetMetric, Versions
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.search.timeline.metric_judge import METRICS, Metric
from accel_lab.search.timeline.metric_search import Measured, MetricOptions, MetricSearch

from . import flip_sides
from .axis import MOST_FLIPS, ends
from .flip_sides import Side
from .release_session import ReleaseListener, ReleaseSession, ReleaseSessions, describe, silent

#: The numbers that are compared at a flip, whichever of them was searched for.
NUMBERS = tuple(METRICS)


class ReleaseMeasurer:
    """The :class:`accel_lab.search.timeline.metric_search.Measurer` of real environments.

    Every sample runs in a fresh process, so that no cache of another run speeds it up.
    """

    def __init__(
        self,
        sessions: ReleaseSessions,
        metric: Metric,
        *,
        side_by_side: int = 1,
        listener: ReleaseListener = silent,
    ) -> None:
        self._sessions = sessions
        self._metric = metric
        self._listener = listener
        self._taken: dict[str, int] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=side_by_side, thread_name_prefix="measure")

    def submit(self, version: str, count: int) -> Future[Measured]:
        """Takes ``count`` more samples of a release in the background."""
        with self._lock:
            first = self._taken.get(version, 0)
            self._taken[version] = first + count
        return self._pool.submit(self._measure, version, range(first, first + count))

    def prefetch(self, version: str) -> None:
        """Makes an environment that may be needed soon, unless the metric is timed and would be disturbed."""
        if not self._metric.timed:
            self._sessions.fetch(version, self._listener)

    def _measure(self, version: str, attempts: Sequence[int]) -> Measured:
        try:
            made = self._sessions.made(version, listener=self._listener)
            with self._sessions.session(version) as session:
                return self._samples(session, made, attempts)
        except EnvironmentUnavailable as error:
            return Measured(why=str(error))

    def _samples(self, session: ReleaseSession, made: Environment, attempts: Sequence[int]) -> Measured:
        samples: list[float] = []
        seconds, status = 0.0, None
        environment: dict[str, Any] = describe(made)
        try:
            for attempt in attempts:
                outcome = sample(session, attempt)
                seconds, status = seconds + outcome.seconds, outcome.status
                environment = describe(made, outcome, self._sessions.setting.folder)
                value, why = number(outcome, self._metric.name)
                if value is None:
                    return Measured(why=why, status=status, seconds=seconds, environment=environment)
                samples.append(value)
        except Interrupted:
            raise
        except LabError as error:
            return Measured(why=str(error), environment=environment)
        shown = ", ".join(f"{value:.4g}" for value in samples)
        self._listener(
            "measured", session.version, f"{self._metric.words}: {shown} {self._metric.unit}".strip()
        )
        return Measured(samples=tuple(samples), status=status, seconds=seconds, environment=environment)

    def close(self) -> None:
        """Waits for running measurements; drops queued ones."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> ReleaseMeasurer:
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is not None:
            self._sessions.interrupt()
        self.close()


def sample(session: ReleaseSession, attempt: int) -> Outcome:
    """Makes one measured run of a release, in a fresh process."""
    probe = replace(session.probe, switches=(("measure", True),), cold=True, attempt=attempt)
    return session.lab.submit(probe).result()


def number(outcome: Outcome, name: str) -> tuple[float | None, str]:
    """Returns the number that a run yields, or None and the reason."""
    if outcome.status is not Status.OK:
        message = outcome.raised.message if outcome.raised is not None else "; ".join(outcome.notes)
        return None, shorten(
            f"the script does not end well on this release ({outcome.status}): {message}", 300
        )
    measures = outcome.facts.get("measures") or {}
    if not measures.get("calls"):
        return None, "no compiled region was entered"
    value = measures.get(name)
    if isinstance(value, (int, float)):
        return float(value), ""
    if name == "latency":
        return None, "each call of a compiled region compiled something: call it once more in the script"
    return None, f"this release does not report its {METRICS[name].words}"


class MetricAxis:
    """Searches a line for releases at which a number becomes worse; ``versions`` is filled as it runs."""

    def __init__(
        self,
        sessions: ReleaseSessions,
        line: Sequence[str],
        metric: str,
        worse_by: float,
        *,
        side_by_side: int = 2,
        listener: ReleaseListener = silent,
    ) -> None:
        self._sessions = sessions
        self._line = tuple(line)
        self._metric = METRICS[metric]
        self._options = MetricOptions(worse_by=worse_by)
        self._side_by_side = 1 if self._metric.timed else side_by_side
        self._listener = listener
        self.versions = Versions(line=self._line, complete=False, why="not begun")

    def run(self) -> Versions:
        """Searches the line and studies the newest flips."""
        with ReleaseMeasurer(
            self._sessions, self._metric, side_by_side=self._side_by_side, listener=self._listener
        ) as measurer:
            search = MetricSearch(
                self._line, measurer, self._metric, self._options, side_by_side=self._side_by_side
            )
            try:
                search.run()
            finally:
                self.versions = replace(search.found, metric=self._about())
        self._study()
        return self.versions

    def _about(self) -> TargetMetric:
        return TargetMetric(
            name=self._metric.name,
            words=self._metric.words,
            unit=self._metric.unit,
            worse_by=self._options.worse_by,
        )

    def _study(self) -> None:
        flips = list(self.versions.flips)
        for place in range(max(0, len(flips) - MOST_FLIPS), len(flips)):
            try:
                flips[place] = self._look_into(flips[place])
            except EnvironmentUnavailable as error:
                flips[place] = replace(flips[place], notes=(*flips[place].notes, str(error)))
            self.versions = replace(self.versions, flips=tuple(flips))

    def _look_into(self, flip: Flip) -> Flip:
        """Adds all numbers and the generated code of both sides."""
        good, bad = (self._side(version) for version in ends(flip))
        one, two = (side.top.facts.get("measures") or {} if side.top else {} for side in (good, bad))
        table = {name: MetricPair(good=_known(one.get(name)), bad=_known(two.get(name))) for name in NUMBERS}
        details = FlipDetails(
            good=SideRow(torch=good.version),
            bad=SideRow(torch=bad.version),
            numbers=table,
            code=flip_sides.side_by_side(good, bad),
        )
        changed = [
            f"{METRICS[name].words}: {_short(row.good)} -> {_short(row.bad)}"
            for name, row in table.items()
            if METRICS[name].exact and row.good != row.bad
        ]
        notes = [*flip.notes, *(["what was counted differs too: " + "; ".join(changed)] if changed else [])]
        return replace(flip, notes=tuple(notes), details=details)

    def _side(self, version: str) -> Side:
        with self._sessions.session(version) as session:
            return Side(version=version, top=sample(session, 0))

    @property
    def worse(self) -> bool:
        """Whether some release is worse by the factor."""
        return any(row.verdict is Verdict.BAD for row in self.versions.tested)


def _known(value: object) -> float | None:
    return value if isinstance(value, (int, float)) else None


def _short(value: float | None) -> str:
    return f"{value:.4g}" if value is not None else "unknown"
