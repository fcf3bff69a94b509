"""What is different around a flip: ladders, changed files, code side by side, companions, numbers."""

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
    """A step of a ladder or of an ablation as findings have it: what was asked, what came back."""

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
        """The words of a switch are there where a switch is."""
        row = super().to_json()
        if not self.switch:
            row.pop("label")
        return row


@dataclass(frozen=True, kw_only=True)
class SideRow(Record):
    """One side of a flip. ``ladder`` is None where none was run: then nothing but the release is known."""

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
    """One file that differs.

    ``near``: the failure's traceback goes through it. ``names``: the lines that differ name the culprit.
    """

    path: str
    added: int
    removed: int
    how: str = "changed"
    near: bool = False
    names: bool = False


@dataclass(frozen=True, kw_only=True)
class FileDiff(Record):
    """The unified diff of one file, from the side that passes to the side that fails."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class FileChanges(Record):
    """Which of the failing stage's ``files`` differ; ``more`` of them are not listed.

    ``same``: none does, so the flip is suspect. ``native_same`` is None where the libraries could not be
    compared.
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
    """What both sides' compilers made: ``kind`` is ``kernel``, ``output_code`` or ``post_grad``."""

    kind: str
    good: str
    bad: str
    same: bool = False


@dataclass(frozen=True, kw_only=True)
class NumberPair(Record):
    """One number as it was measured on both sides; None where a side does not have it."""

    good: float | None = None
    bad: float | None = None


@dataclass(frozen=True, kw_only=True)
class Swap(Record):
    """One run with companions of the other side: ``swapped`` are those, ``torch_side`` is good or bad."""

    torch: str
    pins: dict[str, str] = field(default_factory=dict)
    swapped: tuple[str, ...] = ()
    torch_side: str = ""
    verdict: Verdict
    why: str = ""
    error: float = field(default=0.0, metadata=as_json(hidden=True))


@dataclass(frozen=True, kw_only=True)
class Blame(Record):
    """Who is at fault: ``torch``, companions by name, or nobody where it is unknown.

    ``proven`` only with both runs: with the blamed thing alone on the good side it fails, with it alone
    taken from the bad side it passes. ``cleared`` are companions that both runs acquit; ``open`` those of
    which at least one run could not be had.
    """

    culprits: tuple[str, ...] = ()
    proven: bool = False
    sentence: str = ""
    swaps: tuple[Swap, ...] = ()
    cleared: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FlipDetails(Record):
    """All that was looked at around one flip; what was not looked at is None.

    ``numbers`` are there for a flip of a number: by name of the number.
    """

    good: SideRow
    bad: SideRow
    files: FileChanges | None = field(default=None, metadata=as_json(sparse=True))
    numbers: dict[str, NumberPair] = field(default_factory=dict, metadata=as_json(sparse=True))
    code: tuple[CodePair, ...] = ()
    companions: Blame | None = field(default=None, metadata=as_json(sparse=True))
