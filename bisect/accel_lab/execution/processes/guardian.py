"""The lab's end of a pipe to a process that ends every process of the run when the lab is gone.

``kill -9`` runs no code of ours, but the kernel closes the pipe then. A parent-death signal would not do: it
is cleared when a privileged program is executed, goes with the thread that forked, and reaches no grandchild.
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

#: In the environment of every process that the lab starts, and of all that they start: the run's id.
RUN = "ACCEL_LAB_RUN"
_MAIN = Path(__file__).with_name("guardian_main.py")
_WAIT_S = 5.0

#: ``start(command, descriptor)`` starts a process with that as its standard input.
Start = Callable[[Sequence[str], int], Started]


class Guardian:
    """Starts the process once for each process of the lab, and sends it whom it must end.

    Where there is no ``/proc`` (macOS) there is none, and a killed lab's probes are swept by no one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of = 0  # the pid of the lab that it was started for
        self._run = ""
        self._pipe = -1
        self._process: Started | None = None

    @property
    def run(self) -> str:
        """The id of what this process of the lab starts: 32 hex digits that nobody can guess."""
        with self._lock:
            self._ours()
            return self._run

    def watch(self, start: Start) -> None:
        """Make sure that it runs; a lab whose guardian cannot be started goes on without."""
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
            # It must never make us wait: what it has not read of then is found by the run's marker.
            os.set_blocking(theirs, False)
            self._pipe = theirs
            self._write(f"{self._run}\n")

    def tell(self, processes: Iterable[Process]) -> None:
        """These are of the run: they may have lost the marker, or their parent, by the time it matters."""
        with self._lock:
            if self._pipe >= 0 and self._of == os.getpid():
                self._write("".join(f"{p.pid} {p.start}\n" for p in processes))

    def dismiss(self) -> None:
        """The lab is done: let it look once more, and wait for its end."""
        with self._lock:
            process, self._process = self._process, None
            if self._of == os.getpid() and self._pipe >= 0:
                self._close()
                if process is not None:
                    with suppress(Exception):  # it is busy with what cannot be killed: it goes on by itself
                        process.wait(_WAIT_S)

    def _ours(self) -> None:
        """After a fork the other process of the lab is another run, with a guardian of its own."""
        if self._of != os.getpid():
            self._close()
            self._of, self._run, self._process = os.getpid(), secrets.token_hex(16), None

    def _write(self, text: str) -> None:
        try:
            os.write(self._pipe, text.encode())
        except OSError:
            pass  # it is behind, or was killed

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe = -1


GUARDIAN = Guardian()
