"""Outcome: the facts of one run. What they mean is for ``judge`` to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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
class Frame:
    """One line of a traceback; ``file`` is shortened to ``torch/...`` inside torch."""

    file: str
    line: int
    function: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class Raised:
    """An exception as it ended the run. ``links`` are the types and messages it was raised from.

    ``operator`` is the one whose own code raised, where that is known.
    """

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()
    operator: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Raised:
        return cls(
            type=data["type"],
            message=data["message"],
            frames=tuple(Frame(**f) for f in data.get("frames", ())),
            text=data.get("text", ""),
            links=tuple((a, b) for a, b in data.get("links", ())),
            operator=data.get("operator", ""),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "message": self.message,
            "frames": [f.to_json() for f in self.frames],
            "text": self.text,
            "links": [list(pair) for pair in self.links],
            "operator": self.operator,
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run's facts: how it ended, what it raised, what its compiled regions returned, what it cost.

    ``folder`` holds what the run left: ``stdout.txt``, ``stderr.txt``, ``records.jsonl`` with its
    tensors, and the compiler's artifacts. ``facts`` are things the child noticed, such as the
    graphs that were captured; ``notes`` are one-line remarks for the reader.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    raised: Raised | None = None
    seconds: float = 0.0
    peak_mb: float = 0.0
    torch: str = ""
    python: str = ""
    warm: bool = False
    folder: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the run ended in any way but exit code 0."""
        return self.status not in (Status.OK, Status.REFUSED, Status.NOT_APPLICABLE)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "status": self.status.value,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "raised": self.raised.to_json() if self.raised else None,
            "seconds": round(self.seconds, 3),
            "peak_mb": round(self.peak_mb, 1),
            "torch": self.torch,
            "python": self.python,
            "warm": self.warm,
            "folder": self.folder,
            "facts": self.facts,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        return cls(
            status=Status(data["status"]),
            exit_code=data.get("exit_code"),
            signal=data.get("signal"),
            raised=Raised.from_json(data["raised"]) if data.get("raised") else None,
            seconds=data.get("seconds", 0.0),
            peak_mb=data.get("peak_mb", 0.0),
            torch=data.get("torch", ""),
            python=data.get("python", ""),
            warm=data.get("warm", False),
            folder=data.get("folder", ""),
            facts=data.get("facts", {}),
            notes=tuple(data.get("notes", ())),
        )
