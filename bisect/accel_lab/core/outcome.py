"""Outcome: the facts of one run. ``judge`` derives their meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from accel_lab.protocol.facts import Facts as Facts

from .record import Record, as_json, json_property

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

    forbids_extra_keys = True

    file: str
    line: int
    function: str


@dataclass(frozen=True, kw_only=True)
class Raised(Record):
    """The exception that ended a run. ``links`` are the (type, message) of its causes.

    ``operator`` is the operator whose own code raised, empty if unknown.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    operator: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome(Record):
    """The facts of one run: how it ended, what it raised, what its compiled regions returned, its cost.

    ``folder`` holds the run's files: ``stdout.txt``, ``stderr.txt``, ``records.jsonl`` with its tensors, and
    the compiler's artifacts. ``facts`` are observations of the child, such as the captured graphs, in the
    shapes of ``untrusted/fact_shapes.py``. ``notes`` are one-line remarks for the reader.
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
    @json_property()
    def schema(self) -> str:
        return SCHEMA

    @property
    def was_run(self) -> bool:
        """Whether the script was run; ``notes`` say why not."""
        return self.status not in (Status.REFUSED, Status.NOT_APPLICABLE)

    @property
    def failed(self) -> bool:
        """Whether the script was run and did not end with exit code 0."""
        return self.was_run and self.status is not Status.OK
