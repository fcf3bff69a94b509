"""Outcome: the facts of one run. What they mean is for ``judge`` to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from accel_lab.protocol.facts import Facts as Facts

from .record import Record, as_json, written

SCHEMA = "accel-lab/outcome/1"


class Status(str, Enum):
    """How a run ended."""

    OK = "ok"
    EXCEPTION = "exception"
    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output"
    PROCESSES = "processes"
    DISK = "disk"
    REFUSED = "refused"
    NOT_APPLICABLE = "not_applicable"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Frame(Record):
    """One line of a traceback; ``file`` is shortened to ``torch/...`` inside torch."""

    refuses_more = True

    file: str
    line: int
    function: str


@dataclass(frozen=True, kw_only=True)
class Raised(Record):
    """An exception as it ended the run. ``links`` are the types and messages it was raised from.

    ``operator`` is the one whose own code raised, where that is known.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    operator: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome(Record):
    """One run's facts: how it ended, what it raised, what its compiled regions returned, what it cost.

    ``folder`` holds what the run left: ``stdout.txt``, ``stderr.txt``, ``records.jsonl`` with its
    tensors, and the compiler's artifacts. ``facts`` are things the child noticed, such as the
    graphs that were captured, in the shapes of ``untrusted/fact_shapes.py``; ``notes`` are one-line remarks
    for the reader.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    raised: Raised | None = None
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    peak_mb: float = field(default=0.0, metadata=as_json(digits=1))
    torch: str = ""
    python: str = ""
    warm: bool = False
    folder: str = ""
    facts: Facts = field(default_factory=Facts)
    notes: tuple[str, ...] = ()

    @property
    @written()
    def schema(self) -> str:
        return SCHEMA

    @property
    def was_run(self) -> bool:
        """Whether the script was run at all; ``notes`` say why not."""
        return self.status not in (Status.REFUSED, Status.NOT_APPLICABLE)

    @property
    def failed(self) -> bool:
        """Whether the run ended in any way but exit code 0."""
        return self.was_run and self.status is not Status.OK
