"""Writes the progress of a run to disk, line by line, so that another process can follow it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from accel_lab.core.text import printable

NAME = "progress.txt"
#: A search prints a few hundred lines; a run of days stops here, and only the journal continues.
MOST_BYTES = 2 << 20
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProgressFile:
    """Appends lines to ``progress.txt`` in a run's folder, up to :data:`MOST_BYTES` in total.

    A resumed run appends to its own file. An error never stops the run; the line is lost. It never writes to
    a link or pipe at that path, which a script may have put there.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._left = MOST_BYTES
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(folder / NAME, _FLAGS, 0o600)
            self._left -= os.fstat(self._file).st_size

    def write(self, line: str) -> None:
        """Appends one line; thread-safe."""
        data = (" ".join(printable(line).splitlines()) + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            if self._file is None or len(data) > self._left:
                return
            with suppress(OSError):
                self._left -= os.write(self._file, data)

    def close(self) -> None:
        """Closes the file; later lines are dropped."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)
