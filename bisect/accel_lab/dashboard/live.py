"""What is shown of a run while it goes on: a bisection of this dashboard, or a run that another started."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Protocol

from .progress_lines import Line


class State(enum.Enum):
    """Where a run stands."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    OVER = "over"


class Live(Protocol):
    """A run that can be watched; any thread may ask.

    ``said`` is how it ended, ``run`` its folder as soon as it is known. ``started`` is None until it begins,
    ``seconds`` is how long it has been running.
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
        """Its progress until now."""

    def running(self) -> list[str]:
        """The probes that are going on."""

    def result(self) -> str:
        """The text that it printed at its end."""


def seconds_in_words(seconds: float) -> str:
    """``2 min 05 s``, ``40 s``."""
    whole = int(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
