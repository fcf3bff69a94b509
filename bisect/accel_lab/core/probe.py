"""Probe: one question - this program, under this rung, in this environment, with these limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.protocol.job import PROTOCOL, Job
from accel_lab.protocol.switches import SWITCHES

from .machine.environment import EnvironmentId
from .record import Record, as_json
from .stages import Rung


@dataclass(frozen=True, kw_only=True)
class Program(Record):
    """What the user wants to run: a script by path, or a module by name as ``python -m`` does.

    ``origin`` is the notebook that the script was made of; it is run as if it lay in that one's folder.
    """

    path: str | None = None
    module: str | None = None
    args: tuple[str, ...] = ()
    sha256: str = ""
    origin: str = field(default="", metadata=as_json(sparse=True))

    @property
    def name(self) -> str:
        """A short name for headings and folder names."""
        if self.path is not None:
            return (self.origin or self.path).rsplit("/", 1)[-1]
        return f"-m {self.module}"


@dataclass(frozen=True, kw_only=True)
class Limits(Record):
    """What one run may use; what goes beyond is stopped and becomes an Outcome.

    ``file_mb`` is for one file, ``disk_mb`` for all that it writes to its own folders. With no ``record_mb``
    nothing is recorded.
    """

    timeout_s: float = 300.0
    memory_mb: int = 16_384
    output_mb: int = 64
    file_mb: int = 8_192
    processes: int = 512
    record_mb: int = 256
    disk_mb: int = 8_192


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One question to a child process. ``key`` is stable, so an answer can be stored and found again.

    ``switches`` are the single settings changed on top of the rung, of ``protocol.switches``;
    ``bare`` runs the program with no instrumentation at all, as the user would;
    ``attempt`` tells repeats of the same question apart; ``cwd`` is where it starts, if not where
    the user did; ``edited`` is a file of the program and the one that is shown in its place, whose name is
    the digest of its text.
    """

    program: Program
    rung: Rung = Rung.KERNEL
    switches: tuple[tuple[str, Any], ...] = ()
    environment: EnvironmentId = field(default_factory=EnvironmentId)
    limits: Limits = field(default_factory=Limits)
    bare: bool = False
    cold: bool = False
    attempt: int = 0
    cwd: str = ""
    edited: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """Twenty hex digits over everything that can change the answer."""
        payload = json.dumps(
            {
                "program": self.program.to_json(),
                "rung": self.rung.value,
                "switches": sorted((k, v) for k, v in self.switches),
                "environment": str(self.environment),
                "limits": self.limits.to_json(),
                "bare": self.bare,
                "cold": self.cold,
                "attempt": self.attempt,
                **({"cwd": self.cwd} if self.cwd else {}),
                **({"edited": [self.edited[0], Path(self.edited[1]).name]} if self.edited else {}),
            },
            sort_keys=True,
            default=str,
        )
        return hashlib.sha256(payload.encode()).hexdigest()[:20]

    @property
    def label(self) -> str:
        """How a person would call this probe in a progress line."""
        if self.edited:
            return "the changed script" + ("" if self.bare else ", recorded")
        if self.bare:
            return "plain run"
        name = self.rung.value
        if self.switches:
            name += " " + ", ".join(_said(k, v) for k, v in self.switches)
        return name + (" (cold)" if self.cold else "")

    def again(self, attempt: int) -> Probe:
        """The same question, asked once more."""
        return replace(self, attempt=attempt)


def _said(name: str, value: Any) -> str:
    """One switch in a progress line; the accelerator's settings without the name that they go under."""
    if name in ("mock", "adapter") and isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in value.items() if v != "")
    if name == "off" and value == {"lowerings": "all"}:
        return "every operator falls back to eager"
    words = SWITCHES[name].words if name in SWITCHES else name
    if value is True:
        return words
    if isinstance(value, dict):
        value = " ".join(f"{k}={v}" for k, v in value.items())
    elif isinstance(value, (list, tuple)):
        value = " ".join(map(str, value))
    return f"{words}: {value}"


__all__ = ["PROTOCOL", "Job", "Limits", "Probe", "Program"]
