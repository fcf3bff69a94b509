"""The results of ``accel-lab bench``: one row per model and backend, and comparisons with earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .record import Record, as_json, json_property

SCHEMA = "accel-lab/bench/1"


class RowStatus(str, Enum):
    """The result of one row."""

    OK = "ok"
    DIFFERS = "differs"
    FAILED = "failed"
    SKIPPED = "skipped"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Spread(Record):
    """Median, quartiles, minimum and maximum of some samples."""

    median: float
    q1: float
    q3: float
    low: float
    high: float
    count: int

    @property
    @json_property(after="count")
    def iqr(self) -> float:
        """The interquartile range; half of the samples lie in it."""
        return self.q3 - self.q1

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread | None:
        """Computes the spread, with linearly interpolated quartiles; None if there are no samples."""
        if not samples:
            return None
        ordered = sorted(samples)

        def at(part: float) -> float:
            place = part * (len(ordered) - 1)
            below = int(place)
            above = min(below + 1, len(ordered) - 1)
            return ordered[below] + (place - below) * (ordered[above] - ordered[below])

        return cls(
            median=at(0.5), q1=at(0.25), q3=at(0.75), low=ordered[0], high=ordered[-1], count=len(ordered)
        )


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A worker's answer to one job: its facts so far, and how its process ended.

    ``ended`` is empty if the process ran to its end. ``stderr_line`` is the last line of its standard error.
    """

    facts: dict[str, Any]
    ended: str = ""
    stderr_line: str = ""
    seconds: float = 0.0
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class Distance(Record):
    """The largest absolute error over all result tensors, against eager and against a float64 run.

    ``differing`` lists the tensors whose error exceeds the tolerance of their dtype, worst first, with the
    reason.
    """

    to_eager: float
    to_float64: float | None
    eager_to_float64: float | None
    tensors: int
    differing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """The measurement of one model under one backend; None marks what a backend lacks or does not report."""

    model: str
    backend: str
    standing: RowStatus
    reason: str = ""
    parameters: int | None = None
    import_s: float | None = None
    first_call_s: float | None = None
    latency_ms: Spread | None = None
    eager_latency_ms: Spread | None = None
    samples_ms: tuple[float, ...] = ()
    eager_samples_ms: tuple[float, ...] = ()
    memory: dict[str, Any] = field(default_factory=dict)
    graphs: int | None = None
    graph_breaks: dict[str, int] | None = None
    kernels: int | None = None
    violations: dict[str, int] | None = None
    violation_lines: tuple[str, ...] = ()
    fallbacks: dict[str, int] | None = None
    parts_ms: dict[str, float] | None = None
    distance: Distance | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    folder: str = ""

    @property
    @json_property(after="first_call_s")
    def compile_s(self) -> float | None:
        """Duration of the first call minus the median of later ones, in seconds."""
        if self.first_call_s is None or self.latency_ms is None:
            return None
        return max(self.first_call_s - self.latency_ms.median / 1e3, 0.0)

    @property
    @json_property(after="eager_latency_ms")
    def ratio_to_eager(self) -> float | None:
        """Median latency divided by that of the interleaved eager calls."""
        if self.latency_ms is None or self.eager_latency_ms is None or not self.eager_latency_ms.median:
            return None
        return self.latency_ms.median / self.eager_latency_ms.median

    @property
    @json_property(after="eager_samples_ms")
    def peak_mb(self) -> float | None:
        """Peak memory of later calls minus the process's memory before the model was created, in MB."""
        peak, before = self.memory.get("steady_mb"), self.memory.get("imports_mb")
        return None if peak is None or before is None else max(peak - before, 0.0)


class Change(str, Enum):
    """How a row changed since the earlier benchmark."""

    SLOWER = "slower"
    BROKEN = "broken"
    FASTER = "faster"
    SAME = "same"
    MACHINE = "machine"
    TOO_FEW = "too_few"
    NEW = "new"
    GONE = "gone"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class RowChange(Record):
    """Comparison of one row with the same row of the earlier benchmark. Medians are in milliseconds.

    ``ratio`` is this median divided by the earlier one. ``chance`` is the p-value: the probability of samples
    this far apart if there were no difference.
    """

    model: str
    backend: str
    change: Change
    base_ms: float | None = None
    now_ms: float | None = None
    ratio: float | None = None
    chance: float | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class BenchmarkComparison(Record):
    """Comparison with an earlier benchmark: its file, its torch release, and a row for each pair."""

    base: str
    torch: str
    rows: tuple[RowChange, ...] = ()

    @property
    def regressions(self) -> tuple[RowChange, ...]:
        """The rows that became slower or no longer match eager."""
        return tuple(row for row in self.rows if row.change in (Change.SLOWER, Change.BROKEN))


@dataclass(kw_only=True)
class Benchmark(Record):
    """All rows of one run of ``accel-lab bench``, with its settings and environment."""

    complete: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict, metadata=as_json(name="models"))
    rows: list[Measurement] = field(default_factory=list)
    artifacts: str = ""
    report: str | None = None
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    compared: BenchmarkComparison | None = None

    @property
    @json_property()
    def schema(self) -> str:
        return SCHEMA

    @property
    def models(self) -> list[str]:
        """The models in the order of their first rows."""
        return list(dict.fromkeys(row.model for row in self.rows))

    @property
    def backends(self) -> list[str]:
        """The backends in the order of their first rows."""
        return list(dict.fromkeys(row.backend for row in self.rows if row.backend))

    def of(self, model: str) -> list[Measurement]:
        """The rows of one model."""
        return [row for row in self.rows if row.model == model]

    def count(self, *standings: RowStatus) -> int:
        """The number of rows with one of these standings."""
        return sum(row.standing in standings for row in self.rows)
