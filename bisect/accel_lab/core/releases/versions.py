"""The version axis in findings: what each release answered, the flips on the line, and what was skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.outcome import Status
from accel_lab.core.record import Record, as_json, written
from accel_lab.core.verdict import Verdict

from .flip_change import FlipChange
from .flip_details import FlipDetails


@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """What was measured of a release. ``ratio`` is to the good end's ``good`` samples; None if infinite."""

    name: str = ""
    unit: str = ""
    samples: tuple[float, ...] = ()
    median: float | None = None
    ratio: float | None = None
    good: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TargetNumber(Record):
    """The number that is looked for instead of a failure, and the factor that counts as worse."""

    name: str
    words: str = ""
    unit: str = ""
    worse_by: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TwoAxes(Record):
    """``stages`` is the stage on the bad side of each flip; ``same`` is None unless two of them are known."""

    sentence: str = ""
    stages: tuple[str, ...] = ()
    same: bool | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OwnBuild(Record):
    """The user's own build, which passes and is not on the line: it ``fixed_by`` or came ``before``."""

    torch: str
    verdict: Verdict = Verdict.GOOD
    relation: str = ""
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Tested(Record):
    """One release and its answer. ``status`` is that of the deciding run; ``why`` one line for a skip.

    ``stage`` and ``component`` are those of the culprit where the ladder was run on this release too.
    ``error`` is a bound of the chance that ``verdict`` is wrong although it was given: of a script that fails
    only now and then, or of a number that varies. ``metric`` is what was measured, where a number is
    looked for.
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
    """A change of the answer between two releases that are neighbours among those that could be judged.

    ``kind`` is ``introduced``, ``fixed`` or ``broken_again``. ``between`` are the releases from ``after``
    to ``at`` that could not be judged: with any, the flip is a range, ``after`` < x <= ``at``.
    ``change`` is the piece of torch's sources that makes the difference; None where it was not asked for.
    ``confidence`` is that both neighbours were judged rightly; None where no verdict was in doubt.
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
    """All that the version axis found. ``complete`` is False where it was cut short; ``why`` says so.

    ``confidence`` is that of the whole chain: that every verdict on the line is right. None where no verdict
    was in doubt: nothing that was seen varied, so there was no chance to reckon with. ``axes`` says whether
    the failing stage is the same at every flip; ``metric`` is the number that is looked for instead of a
    failure, where one is.
    """

    line: tuple[str, ...] = ()
    tested: tuple[Tested, ...] = ()
    flips: tuple[Flip, ...] = ()
    complete: bool = True
    why: str = ""
    notes: tuple[str, ...] = ()
    confidence: float | None = None
    axes: TwoAxes | None = field(default=None, metadata=as_json(empty=True))
    metric: TargetNumber | None = field(default=None, metadata=as_json(empty=True))
    own: OwnBuild | None = field(default=None, metadata=as_json(empty=True))

    @property
    @written(after="flips")
    def last_good(self) -> str | None:
        """The last release without the failure before the newest introduction; None where none is known."""
        found = [flip.after for flip in self.flips if flip.kind != "fixed"]
        return found[-1] if found else None

    @property
    @written(after="last_good")
    def first_bad(self) -> str | None:
        found = [flip.at for flip in self.flips if flip.kind != "fixed"]
        return found[-1] if found else None

    @property
    @written(after="first_bad")
    def fixed_in(self) -> str | None:
        """The release that fixed it for good: the newest flip, if it is a fix."""
        return self.flips[-1].at if self.flips and self.flips[-1].kind == "fixed" else None

    @property
    @written(after="fixed_in")
    def skipped(self) -> tuple[str, ...]:
        return tuple(row.torch for row in self.tested if row.verdict is Verdict.SKIP)
