"""File locks between threads and processes, shared (to use something) or exclusive (to change it)."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

_PAUSE_S = 0.1


class Lock:
    """A lock on a file; the kernel releases it when the process dies, so a killed lab leaves none behind.

    Each object is a separate holder, so two threads exclude each other like two processes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self, *, shared: bool = False, wait_s: float = 0.0) -> bool:
        """Takes the lock, or changes its kind. Returns False if others hold it for ``wait_s`` seconds."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(self._file, kind | fcntl.LOCK_NB)
                return True
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR):
                    self.release()
                    raise
            if time.monotonic() >= deadline:
                self.release()
                return False
            time.sleep(_PAUSE_S)

    def is_current(self) -> bool:
        """Whether the locked file still exists under its path; a former holder may have removed it."""
        try:
            there = os.lstat(self.path)
        except OSError:
            return False
        return self._file is not None and os.path.samestat(there, os.fstat(self._file))

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)  # releases the lock

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
