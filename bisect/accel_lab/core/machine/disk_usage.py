"""How much a run has written: the blocks of all files in its folders, counted as seldom as possible."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

#: To look may take a twentieth of the time at most.
_SHARE = 20
_LEAST_S = 0.25
MB = 1 << 20


class DiskUsage:
    """The size of folders together, in MB. A link counts nothing, a sparse file what it holds."""

    def __init__(self, folders: Sequence[Path], limit_mb: float) -> None:
        self._folders = tuple(folders)
        self._limit_mb = limit_mb
        self._next = time.monotonic() + _LEAST_S
        self._at = time.monotonic()
        self.mb = 0.0

    def look(self) -> float:
        """The size when it was looked at last, which is now if that is due."""
        began = time.monotonic()
        if not self._folders or began < self._next:
            return self.mb
        before, self.mb = self.mb, self._measure()
        took = time.monotonic() - began
        # What grows towards the limit is looked at again when it has gone half of the way.
        growth = max(self.mb - before, 0.0) / max(began - self._at, 1e-6)
        room = (self._limit_mb - self.mb) / growth / 2 if growth > 0 else _LEAST_S * 8
        self._at = began
        self._next = began + max(took * _SHARE, min(_LEAST_S * 8, room), _LEAST_S / 2)
        return self.mb

    def _measure(self) -> float:
        """Up to the limit: how far beyond it does not matter."""
        total, seen = 0, set()
        for folder in self._folders:
            for found in _files(folder):
                if found.st_nlink > 1:
                    if (found.st_dev, found.st_ino) in seen:
                        continue
                    seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * 512
                if total > self._limit_mb * MB:
                    return total / MB
        return total / MB


def _files(folder: Path) -> Iterator[os.stat_result]:
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(entry.path)
                    elif stat.S_ISREG(found.st_mode):
                        yield found
        except OSError:
            continue  # gone meanwhile, or closed to us
