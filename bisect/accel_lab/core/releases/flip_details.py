"""Differences between the two sides of a flip: ladders, changed files, code, companions, numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.evidence import Evidence
from accel_lab.core.outcome import Status
from accel_lab.core.record import Record, as_json
from accel_lab.core.signature import Signature
from accel_lab.core.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class StepRow(Record):
    """The JSON row of a step of a ladder or an ablation: the probe and its result."""

    rung: str
    verdict: Verdict
    status: Status = Status.OK
    signature: Signature | None = None
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    max_abs_error: float | None = None
    torch: str = ""
    runs: int = 1
    failures: int = 0
    note: str = ""
    switch: str = field(default="", metadata=as_json(sparse=True))
    label: str = ""

    def to_json(self) -> dict[str, Any]:
        """Omits ``label`` without a ``switch``."""
        row = super().to_json()
        if not self.switch:
            row.pop("label")
        return row


@dataclass(frozen=True, kw_only=True)
class SideRow(Record):
    """One side of a flip. ``ladder`` is None if none was run; only the release is known then."""

    torch: str = ""
    stage: str = ""
    component: str = ""
    confidence: str | None = None
    ladder: tuple[StepRow, ...] | None = None
    warnings: tuple[Evidence | str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return super().to_json() if self.ladder is not None else {"torch": self.torch}


@dataclass(frozen=True, kw_only=True)
class ChangedFile(Record):
    """One changed file.

    ``near``: it is in the failure's traceback. ``names``: the changed lines mention the culprit.
    """

    path: str
    added: int
    removed: int
    how: str = "changed"
    near: bool = False
    names: bool = False


@dataclass(frozen=True, kw_only=True)
class FileDiff(Record):
    """The unified diff of one file, from the passing to the failing side."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FileChanges(Record):
    """The changed files of the failing stage, out of ``files``; ``more`` of them are not listed.

    ``same``: none changed, so the flip is suspect. ``native_same`` is None if the native libraries could not
    be compared.
    """

    stage: str = ""
    files: int = 0
    same: bool = False
    native_same: bool | None = None
    said: str = ""
    changed: tuple[ChangedFile, ...] = ()
    more: int = 0
    diffs: tuple[FileDiff, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CodePair(Record):
    """Generated code of both sides; ``kind`` is ``kernel``, ``output_code`` or ``post_grad``."""

    kind: str
    good: str
    bad: str
    same: bool = False


@dataclass(frozen=True, kw_only=True)
class MetricPair(Record):
    """One number measured on both sides; None if a side lacks it."""

    good: float | None = None
    bad: float | None = None


@dataclass(frozen=True, kw_only=True)
class Swap(Record):
    """One run with the ``swapped`` companions from the other side; ``torch_side`` is good or bad."""

    torch: str
    pins: dict[str, str] = field(default_factory=dict)
    swapped: tuple[str, ...] = ()
    torch_side: str = ""
    verdict: Verdict
    why: str = ""
    error: float = field(default=0.0, metadata=as_json(hidden=True))


@dataclass(frozen=True, kw_only=True)
class Blame(Record):
    """The packages at fault: ``torch``, companions, or nothing if unknown.

    ``proven`` needs both runs: the good side fails with only the culprit from the bad side, and the bad side
    passes with only the culprit from the good side. ``cleared`` are companions that both runs rule out.
    ``open`` are those with at least one run missing.
    """

    culprits: tuple[str, ...] = ()
    proven: bool = False
    sentence: str = ""
    swaps: tuple[Swap, ...] = ()
    cleared: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FlipDetails(Record):
    """The analyses of one flip; None for those that were not made.

    ``numbers``, by name, are set for a flip of a metric.
    """

    good: SideRow
    bad: SideRow
    files: FileChanges | None = field(default=None, metadata=as_json(sparse=True))
    numbers: dict[str, MetricPair] = field(default_factory=dict, metadata=as_json(sparse=True))
    code: tuple[CodePair, ...] = ()
    companions: Blame | None = field(default=None, metadata=as_json(sparse=True))
