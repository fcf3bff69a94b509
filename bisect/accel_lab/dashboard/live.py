"""The interface of a run that the page shows live: a bisection of this dashboard or another process's run."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Protocol

from .progress_lines import Line


class State(enum.Enum):
    """State of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    OVER = "over"


class Live(Protocol):
    """A run that can be watched; thread-safe.

    ``said`` is how it ended. ``run`` is its folder once it is known. ``started`` is None until it begins.
    ``seconds`` is the time that it has run.
    """

    @property
    def state(self) -> State: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def said(self) -> str: ...
    @property
    def run(self) -> Path | None: ...
    @property
    def started(self) -> float | None: ...
    @property
    def seconds(self) -> float: ...
    def lines(self) -> list[Line]:
        """Returns its progress so far."""

    def running(self) -> list[str]:
        """Returns the running probes."""

    def result(self) -> str:
        """Returns the text that it printed at its end."""


def seconds_in_words(seconds: float) -> str:
    """Formats seconds as ``2 min 05 s`` or ``40 s``."""
    whole = int(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
