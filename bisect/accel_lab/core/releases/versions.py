"""The version axis in the findings: the verdict of each release, the flips, and the skipped releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.outcome import Status
from accel_lab.core.record import Record, as_json, json_property
from accel_lab.core.verdict import Verdict

from .flip_change import FlipChange
from .flip_details import FlipDetails


@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """A metric's samples on one release. ``ratio`` is relative to the ``good`` samples; None if infinite."""

    name: str = ""
    unit: str = ""
    samples: tuple[float, ...] = ()
    median: float | None = None
    ratio: float | None = None
    good: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TargetMetric(Record):
    """The metric that is followed instead of a failure, and the factor that counts as worse."""

    name: str
    words: str = ""
    unit: str = ""
    worse_by: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StagesAcrossFlips(Record):
    """The stages of all flips compared: ``stages`` are those of the bad sides.

    ``same`` is None unless at least two stages are known.
    """

    sentence: str = ""
    stages: tuple[str, ...] = ()
    same: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OwnBuild(Record):
    """The user's own build, which passes and is off the line; ``relation`` is ``fixed_by`` or ``before``."""

    torch: str
    verdict: Verdict = Verdict.GOOD
    relation: str = ""
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Tested(Record):
    """One release and its verdict. ``status`` is the deciding run's; ``why`` explains a skip in one line.

    ``stage`` and ``component`` are the culprit's, if the ladder was run on this release too. ``error`` bounds
    the probability that ``verdict`` is wrong, for a flaky script or a noisy metric. ``metric`` is the
    measurement, if a metric is followed.
    """

    torch: str
    verdict: Verdict
    status: Status | None = None
    signature: str = ""
    why: str = ""
    runs: int = 1
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    environment: dict[str, Any] = field(default_factory=dict)
    stage: str = ""
    component: str = ""
    error: float = 0.0
    metric: Measurement | None = field(default=None, metadata=as_json(empty=True))


@dataclass(frozen=True, kw_only=True)
class Flip(Record):
    """A change of the verdict between two releases that are neighbours among those with a verdict.

    ``kind`` is ``introduced``, ``fixed`` or ``broken_again``. ``between`` are the skipped releases; if there
    are any, the flip is in the range ``after`` < x <= ``at``. ``change`` is the change of torch's sources
    that causes it; None if it was not searched. ``confidence`` is the probability that both verdicts are
    right; None if no verdict was in doubt.
    """

    after: str
    at: str
    kind: str
    between: tuple[str, ...] = ()
    confidence: float | None = None
    notes: tuple[str, ...] = ()
    details: FlipDetails | None = field(default=None, metadata=as_json(empty=True))
    change: FlipChange | None = field(default=None, metadata=as_json(empty=True))


@dataclass(frozen=True, kw_only=True)
class Versions(Record):
    """The result of the version axis. ``complete`` is False if it was cut short; ``why`` says why.

    ``confidence`` is the probability that all verdicts on the line are right; None if no run varied, so that
    there is nothing to estimate it from. ``axes`` says whether the failing stage is the same at every flip.
    ``metric`` is the metric that is followed instead of a failure, if any.
    """

    line: tuple[str, ...] = ()
    tested: tuple[Tested, ...] = ()
    flips: tuple[Flip, ...] = ()
    complete: bool = True
    why: str = ""
    notes: tuple[str, ...] = ()
    confidence: float | None = None
    axes: StagesAcrossFlips | None = field(default=None, metadata=as_json(empty=True))
    metric: TargetMetric | None = field(default=None, metadata=as_json(empty=True))
    own: OwnBuild | None = field(default=None, metadata=as_json(empty=True))

    @property
    @json_property(after="flips")
    def last_good(self) -> str | None:
        """The last release before the newest introduction of the failure; None if unknown."""
        found = [flip.after for flip in self.flips if flip.kind != "fixed"]
        return found[-1] if found else None

    @property
    @json_property(after="last_good")
    def first_bad(self) -> str | None:
        found = [flip.at for flip in self.flips if flip.kind != "fixed"]
        return found[-1] if found else None

    @property
    @json_property(after="first_bad")
    def fixed_in(self) -> str | None:
        """The release of the newest flip if that is a fix, else None."""
        return self.flips[-1].at if self.flips and self.flips[-1].kind == "fixed" else None

    @property
    @json_property(after="fixed_in")
    def skipped(self) -> tuple[str, ...]:
        return tuple(row.torch for row in self.tested if row.verdict is Verdict.SKIP)
