"""Probe: one run to make, of a program under a rung with switches, in an environment, with limits."""

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
    """The user's program: a script by path, or a module by name as with ``python -m``.

    ``origin`` is the notebook that the script was converted from; the script runs as if it were in the
    notebook's folder.
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
    """The limits of one run; a run that exceeds one is stopped, and its outcome says so.

    ``file_mb`` limits a single file, ``disk_mb`` all files in the run's own folders. With ``record_mb`` 0
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
    """One run to make in a child process. ``key`` is stable, so its outcome can be stored and found again.

    ``switches`` (of ``protocol.switches``) are changed on top of the rung. ``bare`` runs the program without
    instrumentation, as the user would. ``attempt`` numbers repeats. ``cwd`` is the working directory, if not
    the user's. ``edited`` is a file of the program and its replacement, whose name is the digest of its text.
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
        """Hash of everything that can change the outcome, as twenty hex digits."""
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
        """Short description for progress lines."""
        if self.edited:
            return "the changed script" + ("" if self.bare else ", recorded")
        if self.bare:
            return "plain run"
        name = self.rung.value
        if self.switches:
            name += " " + ", ".join(_said(k, v) for k, v in self.switches)
        return name + (" (cold)" if self.cold else "")

    def again(self, attempt: int) -> Probe:
        """Returns the same probe as repeat number ``attempt``."""
        return replace(self, attempt=attempt)


def _said(name: str, value: Any) -> str:
    """One switch in a progress line; the accelerator's options are shown without the switch's name."""
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
