"""The lab's end of a pipe to the guardian, a process that kills a run's processes when the lab dies.

``kill -9`` runs no code of the lab, but the kernel closes the pipe. A parent-death signal is not enough: the
kernel clears it when a privileged program is executed, ties it to the thread that forked, and does not pass
it to grandchildren.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from .process_table import HAVE_PROC, Process, Started

#: Environment variable with the run's id, set in every process that the lab starts and inherited.
RUN = "ACCEL_LAB_RUN"
_MAIN = Path(__file__).with_name("guardian_main.py")
_WAIT_S = 5.0

#: ``start(command, descriptor)`` starts a process with ``descriptor`` as its standard input.
Start = Callable[[Sequence[str], int], Started]


class Guardian:
    """Starts one guardian for each lab process and sends it the pids that it must kill.

    Without ``/proc`` (macOS) there is no guardian, and the probes of a killed lab keep running.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of = 0  # pid of the lab process that it serves
        self._run = ""
        self._pipe = -1
        self._process: Started | None = None

    @property
    def run(self) -> str:
        """The run id of this lab process: 32 random hex digits."""
        with self._lock:
            self._ours()
            return self._run

    def watch(self, start: Start) -> None:
        """Makes sure that the guardian runs; if it cannot be started, the lab goes on without one."""
        with self._lock:
            self._ours()
            alive = self._process is not None and self._process.poll() is None
            if alive or not HAVE_PROC or not sys.executable:
                return
            self._close()
            ours, theirs = os.pipe()
            try:
                self._process = start([sys.executable, "-I", "-S", str(_MAIN), str(os.getpid())], ours)
            except OSError:
                os.close(theirs)
                return
            finally:
                os.close(ours)
            # The lab must never block here; processes that the guardian misses are found by the run's marker.
            os.set_blocking(theirs, False)
            self._pipe = theirs
            self._write(f"{self._run}\n")

    def tell(self, processes: Iterable[Process]) -> None:
        """Names processes of the run, which may lose their marker or their parent later."""
        with self._lock:
            if self._pipe >= 0 and self._of == os.getpid():
                self._write("".join(f"{p.pid} {p.start}\n" for p in processes))

    def dismiss(self) -> None:
        """Closes the pipe, which makes the guardian look once more and exit, and waits for it."""
        with self._lock:
            process, self._process = self._process, None
            if self._of == os.getpid() and self._pipe >= 0:
                self._close()
                if process is not None:
                    with suppress(Exception):  # still busy with an unkillable process: let it go on
                        process.wait(_WAIT_S)

    def _ours(self) -> None:
        """Starts a new run id after a fork: the child is another run with its own guardian."""
        if self._of != os.getpid():
            self._close()
            self._of, self._run, self._process = os.getpid(), secrets.token_hex(16), None

    def _write(self, text: str) -> None:
        try:
            os.write(self._pipe, text.encode())
        except OSError:
            pass  # the guardian is behind or was killed

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe = -1


GUARDIAN = Guardian()
