"""Searches a line of releases for a numeric regression: slower or larger than at the good end.

It is the search for a failure with another question. Each release is measured until the judge is sure or the
samples run out. Timed metrics are measured again at the good end along with each release, because a machine's
speed varies over time, and nothing else runs meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Protocol

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.outcome import Status
from accel_lab.core.releases.versions import Measurement, Tested, Versions
from accel_lab.core.verdict import Verdict

from .flips import read_line
from .metric_judge import Metric, MetricJudge, MetricReading
from .rank_test import least_chance
from .version_search import LineSearch


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Samples of one release. If there are none, ``why`` says in one line why it could not be measured."""

    samples: tuple[float, ...] = ()
    why: str = ""
    status: Status | None = None
    seconds: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)


class Measurer(Protocol):
    """Measures releases. ``submit`` takes ``count`` more samples of one; ``prefetch`` as for a ``Judge``."""

    def submit(self, version: str, count: int) -> Future[Measured]: ...

    def prefetch(self, version: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """How much worse is bad, and how certain that has to be.

    ``good`` is the end of the line that the others are compared with: ``first`` or ``last``. A release that
    stays unclear after ``most_samples`` samples is SKIP.
    """

    worse_by: float = 1.3
    level: float = 0.01
    most_samples: int = 20
    good: str = "first"


class MetricSearch:
    """Finds the releases at which ``metric`` becomes worse by the factor, or better again."""

    def __init__(
        self,
        line: Sequence[str],
        measure: Measurer,
        metric: Metric,
        options: MetricOptions | None = None,
        *,
        grid: int | None = None,
        side_by_side: int = 2,
        most_probes: int | None = None,
    ) -> None:
        self._line = tuple(line)
        self._metric = metric
        self._options = options or MetricOptions()
        self._samples = Samples(measure, metric, self._options)
        self._grid = grid
        self._side_by_side = 1 if metric.timed else side_by_side
        self._most_probes = most_probes
        self._known: list[Tested] = []
        self._search: LineSearch | None = None

    def run(self) -> Versions:
        """Returns every flip on the line; if the measurer raises, :attr:`found` has what is known."""
        for version in self._line if self._options.good == "first" else reversed(self._line):
            row = self._samples.take_base(version)
            self._known.append(row)
            if row.verdict is Verdict.GOOD:
                break
        pool = ThreadPoolExecutor(max_workers=self._side_by_side)
        self._search = LineSearch(
            self._line,
            _Asker(self._samples, pool),
            known=self._known,
            grid=self._grid,
            side_by_side=self._side_by_side,
            most_probes=self._most_probes,
            what=self.what,
        )
        try:
            return self._with_base(self._search.run())
        finally:
            # An interruption does not wait for the measurement that it interrupts.
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def what(self) -> str:
        """Describes what a bad release has."""
        return f"{self._options.worse_by:g} times the {self._metric.words} of the good end, or more"

    @property
    def found(self) -> Versions:
        """What is known so far, whether the search has ended or not."""
        if self._search is None:
            return self._with_base(
                read_line(self._line, self._known, complete=False, why="not run to the end", what=self.what)
            )
        return self._with_base(self._search.found)

    def _with_base(self, versions: Versions) -> Versions:
        note = self._samples.base_note
        return replace(versions, notes=(note, *versions.notes)) if note else versions


class Samples:
    """Measures releases one by one and judges each against the good end."""

    def __init__(self, measure: Measurer, metric: Metric, options: MetricOptions) -> None:
        self._measure = measure
        self._metric = metric
        self._options = options
        self._base: tuple[float, ...] = ()
        self._base_version = ""
        self._sizes = (1,) if metric.exact else sample_sizes(options.level, options.most_samples)

    @property
    def base_note(self) -> str:
        """One line about the good end; empty until it is measured."""
        if not self._base:
            return ""
        number = f"{median(self._base):.4g} {self._metric.unit}".strip()
        times = f" (median of {len(self._base)})" if len(self._base) > 1 else ""
        return f"the good end is torch {self._base_version}, {self._metric.words} {number}{times}"

    def take_base(self, version: str) -> Tested:
        """Measures the good end: GOOD by definition, or SKIP if its neighbour has to take its place."""
        measured = self._take(version, self._sizes[0])
        if not measured.samples:
            return _unmeasured(version, measured)
        self._base, self._base_version = measured.samples, version
        middle = median(measured.samples)
        return self._row(
            version, measured, self._base, MetricReading(verdict=Verdict.GOOD, median=middle, ratio=1.0)
        )

    def judged(self, version: str) -> Tested:
        """Measures one release until it is clear or the samples run out."""
        options, looks = self._options, len(self._sizes)
        samples: tuple[float, ...] = ()
        base: tuple[float, ...] = () if self._metric.timed else self._base
        seconds = 0.0
        for size in self._sizes:
            wanted = max(1, size - len(samples))
            if self._metric.timed:
                base += self._take(self._base_version, wanted).samples
            measured = self._take(version, wanted)
            seconds += measured.seconds
            if not measured.samples:
                return _unmeasured(version, measured)
            samples += measured.samples
            judge = MetricJudge(
                good=base or self._base,
                worse_by=options.worse_by,
                # Each look at the numbers is a chance to be wrong, so the level is shared among the looks.
                level=options.level / looks,
                exact=self._metric.exact,
            )
            reading = judge.reading(samples)
            if reading.verdict is not Verdict.SKIP:
                break
        reading = replace(reading, chance=min(1.0, reading.chance * looks))
        whole = replace(measured, samples=samples, seconds=seconds)
        return self._row(version, whole, base or self._base, reading)

    def prefetch(self, version: str) -> None:
        """Tells the measurer which release comes next."""
        self._measure.prefetch(version)

    def _take(self, version: str, wanted: int) -> Measured:
        try:
            return self._measure.submit(version, wanted).result()
        except EnvironmentUnavailable as reason:
            return Measured(why=str(reason))

    def _row(self, version: str, measured: Measured, base: Sequence[float], reading: MetricReading) -> Tested:
        return Tested(
            torch=version,
            verdict=reading.verdict,
            status=measured.status,
            why=reading.why,
            runs=len(measured.samples),
            seconds=measured.seconds,
            environment=measured.environment,
            error=0.0 if reading.verdict is Verdict.SKIP else reading.chance,
            metric=Measurement(
                name=self._metric.name,
                unit=self._metric.unit,
                samples=tuple(measured.samples),
                median=reading.median,
                ratio=reading.ratio if math.isfinite(reading.ratio) else None,
                good=tuple(base),
            ),
        )


def sample_sizes(level: float, most: int) -> tuple[int, ...]:
    """Returns the sample counts at which to judge a release: doubling from the least useful one to ``most``.

    The smallest count is one that can yield a verdict although all looks share the level.
    """
    for first in range(2, most):
        sizes = [first]
        while sizes[-1] < most:
            sizes.append(min(most, 2 * sizes[-1]))
        if least_chance(first, first) <= level / len(sizes):
            return tuple(sizes)
    return (max(1, most),)


class _Asker:
    """Answers the line search from samples; each measurement waits for its runs in its own thread."""

    def __init__(self, samples: Samples, pool: ThreadPoolExecutor) -> None:
        self._samples = samples
        self._pool = pool

    def submit(self, version: str) -> Future[Tested]:
        return self._pool.submit(self._samples.judged, version)

    def prefetch(self, version: str) -> None:
        self._samples.prefetch(version)


def _unmeasured(version: str, measured: Measured) -> Tested:
    return Tested(
        torch=version,
        verdict=Verdict.SKIP,
        status=measured.status,
        why=measured.why or "it could not be measured",
        runs=0,
        seconds=measured.seconds,
        environment=measured.environment,
    )
