"""The host that this process keeps for the labs that it starts, as triage and a cluster's worker do."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.execution.processes.guardian import GUARDIAN, RUN
from accel_lab.execution.processes.leftovers import temporary_folder
from accel_lab.execution.processes.process import MARKER, spawn
from accel_lab.execution.processes.process_table import HAVE_PROC, Started

from . import server_keys
from .server_client import host_words

LOG = logging.getLogger("accel_lab.lending")
#: Seconds after which a clean server that no script uses is ended.
_IDLE_S = 600.0


class Hosted:
    """Starts the host on first use; the host ends with this process, even if that is killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of = 0
        self._folder: Path | None = None
        self._process: Started | None = None

    def environment(self) -> dict[str, str]:
        """Returns the variable that gives the host to a child lab; empty without a host."""
        if not HAVE_PROC or server_keys.SERVERS in os.environ:  # inherited, or disabled by the user
            return {}
        with self._lock:
            if self._of != os.getpid():
                self._of, self._process = os.getpid(), None
            if self._process is None or self._process.poll() is not None:
                try:
                    self._start()
                except (LabError, OSError) as error:
                    LOG.info("no host of warm servers: %s", error)
                    return {}
            return {server_keys.SERVERS: str(self._folder)}

    def close(self) -> None:
        """Ends the host and waits for it."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None and self._of == os.getpid():
                if process.stdin is not None:
                    process.stdin.close()
                process.wait()

    def _start(self) -> None:
        folder = temporary_folder(GUARDIAN.run)
        self._process = spawn(
            [sys.executable, *host_words(folder, server_keys.process_key(), _IDLE_S)],
            cwd=folder,
            env={key: value for key, value in os.environ.items() if key not in (MARKER, RUN)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._folder = folder


HOSTED = Hosted()
