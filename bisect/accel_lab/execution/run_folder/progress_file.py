"""The progress of a run on disk, line by line, so that another process can watch it while it runs."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from accel_lab.core.text import printable

NAME = "progress.txt"
#: A search prints some hundred lines; what goes on for days stops here and is seen in the journal only.
MOST_BYTES = 2 << 20
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProgressFile:
    """Appends lines to ``progress.txt`` of a run's folder, up to :data:`MOST_BYTES` in all.

    A run that is resumed appends to its own file. Nothing here stops a run: what cannot be written is left
    out. A link or a pipe in the file's place, which a script may put there, is not written to.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._left = MOST_BYTES
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(folder / NAME, _FLAGS, 0o600)
            self._left -= os.fstat(self._file).st_size

    def write(self, line: str) -> None:
        """Append one line. Any thread may write."""
        data = (" ".join(printable(line).splitlines()) + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            if self._file is None or len(data) > self._left:
                return
            with suppress(OSError):
                self._left -= os.write(self._file, data)

    def close(self) -> None:
        """Nothing is written any more."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)
