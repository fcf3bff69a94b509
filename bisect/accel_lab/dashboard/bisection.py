"""Runs one bisection as a process in its own session, with the command line that a user would type.

It is stopped by SIGINT like by Ctrl-C, so that it keeps its results; the guardian ends it if the dashboard
dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import accel_lab
from accel_lab.core.probe import Limits
from accel_lab.execution.processes import process
from accel_lab.execution.processes.process_table import MARKER

#: The program ``accel-lab``; its folder replaces the caller's on sys.path, whose modules could shadow others.
_MAIN = (
    "import sys; sys.path[:] = [{root!r}, *filter(None, sys.path)]; "
    "from accel_lab.cli.main import main; main()"
)
#: Seconds to save the results after the first stop request, and to end after the second.
_PATIENCE_S, _LAST_S = 30.0, 5.0
_LOOK_S = 0.2
#: Limits of the watch, which only cleans up: the bisection limits its probes itself.
_LIMITS = Limits(timeout_s=30 * 86_400.0, memory_mb=1 << 24, processes=1 << 16)

#: Makes a full command from the words after ``accel-lab``.
Command = Callable[[Sequence[str]], list[str]]


class _Child(Protocol):
    """The part of ``Popen`` that is needed."""

    def send_signal(self, sig: int) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def accel_lab_command(words: Sequence[str]) -> list[str]:
    """Returns the command line that runs this very lab with ``words``."""
    root = str(Path(accel_lab.__file__).resolve().parents[1])
    return [sys.executable, "-c", _MAIN.format(root=root), *words]


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    out: Path,
    err: Path,
    stop: threading.Event,
    started: Callable[[int], None],
    look: Callable[[], None],
) -> int:
    """Runs a command to its end; returns its exit code, negative for the signal that ended it.

    ``started`` gets its pid, and ``look`` is called a few times a second. When this returns, none of its
    processes is left. Raises :class:`LabError` if it cannot be started.
    """
    marker = f"dashboard-{uuid.uuid4().hex}"
    env = {**os.environ, MARKER: marker}
    with out.open("wb") as output, err.open("wb") as errors:
        child = process.spawn(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        watch = process.Watch(child.pid, marker=marker, limits=_LIMITS, outputs=())
        try:
            started(child.pid)
            while not _ended(child, _LOOK_S):
                look()
                if stop.is_set():
                    _ask_to_stop(child, look)
                    break
        finally:
            watch.stop(None if child.poll() is not None else "interrupted")
        return child.wait()


def _ask_to_stop(child: _Child, look: Callable[[], None]) -> None:
    """Signals only the bisection itself, because a probe that ends with it would look like a failing run."""
    for number, seconds in ((signal.SIGINT, _PATIENCE_S), (signal.SIGTERM, _LAST_S)):
        child.send_signal(number)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if _ended(child, _LOOK_S):
                return
            look()


def _ended(child: _Child, seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
