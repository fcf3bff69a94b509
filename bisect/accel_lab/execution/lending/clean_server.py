"""The host's side of a clean server: starts it, has it fork for runs, and tracks its forks."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.machine.files import remove
from accel_lab.execution.processes.process import MARKER, last_line, spawn

#: Seconds to wait for a server's start; a run waits as long for its own server.
START_TIMEOUT_S = 240.0
#: Marker of a clean server, which each fork overwrites with its own.
PLACEHOLDER = "server-" + "0" * 32
_LOG = "log.txt"


class Stale(LabError):
    """The files that the server has loaded have changed, so it must not be used any more."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """How to start a clean server. ``folder`` contains ``lib`` and ``cache``; the server's end removes it."""

    python: str
    folder: Path
    environment: Mapping[str, str]


class CleanServer:
    """A process that has imported torch and runs no user code; runs get forks of it."""

    def __init__(self, start: Start) -> None:
        self.last_used = time.monotonic()
        self._folder = start.folder
        self._changed = threading.Condition()
        self._lending = threading.Lock()
        self._lent: set[int] = set()
        self._answers: list[dict[str, Any]] = []
        self._gone = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cache = start.folder / "cache"
        words = [start.python, str(start.folder / "lib" / "accel_lab_child" / "__main__.py"), "lend"]
        try:
            with (start.folder / _LOG).open("ab") as log:
                self._process = spawn(
                    [*words, str(theirs.fileno())],
                    cwd=start.folder,
                    env={
                        **start.environment,
                        MARKER: PLACEHOLDER,
                        "TORCHINDUCTOR_CACHE_DIR": str(cache),
                        "TRITON_CACHE_DIR": str(cache / "triton"),
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                )
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        threading.Thread(target=self._read, daemon=True, name="accel-lab-clean").start()

    @property
    def lent(self) -> int:
        """Number of forks that runs use now."""
        return len(self._lent)

    @property
    def alive(self) -> bool:
        return not self._gone

    def lend(self, descriptors: Sequence[int]) -> int:
        """Forks for a run, with the descriptors as standard streams, and returns the pid.

        Raises :class:`Stale`, or :class:`LabError` if the server died or does not answer.
        """
        with self._lending:
            try:
                socket.send_fds(self._control, [b"f"], list(descriptors))
            except OSError as error:
                raise LabError(f"the clean server is gone: {last_line(self._folder / _LOG)}") from error
            with self._changed:
                self._changed.wait_for(lambda: bool(self._answers) or self._gone, timeout=START_TIMEOUT_S)
                if not self._answers:
                    raise LabError(f"the clean server died: {last_line(self._folder / _LOG)}")
                answer = self._answers.pop()
                self.last_used = time.monotonic()
        if answer.get("event") == "stale":
            raise Stale(f"{answer.get('why')} has changed")
        return int(answer["pid"])

    def end(self) -> None:
        """Ends the server and removes its folder; forks that still run go on."""
        self._gone = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(timeout=3.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._control.close()
        if not self._lent:  # else a fork may still import from it
            remove(self._folder)

    def _read(self) -> None:
        while True:
            try:
                data = self._control.recv(1 << 16)
                message = json.loads(data) if data else None
            except (OSError, ValueError):
                message = None
            with self._changed:
                if message is None:
                    self._gone = True
                elif message.get("event") == "ended":
                    self._lent.discard(message["pid"])
                    self.last_used = time.monotonic()
                elif message.get("event") in ("forked", "stale"):
                    self._answers.append(message)
                    if message["event"] == "forked":
                        self._lent.add(message["pid"])
                self._changed.notify_all()
            if message is None:
                return
