"""Measures the disk space of a run's folders by file blocks, at a rate that costs at most 5% of the time."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

#: A measurement may take at most one twentieth of the time.
_SHARE = 20
_LEAST_S = 0.25
MB = 1 << 20


class DiskUsage:
    """The total size of folders in MB; links count nothing, sparse files their allocated blocks."""

    def __init__(self, folders: Sequence[Path], limit_mb: float) -> None:
        self._folders = tuple(folders)
        self._limit_mb = limit_mb
        self._next = time.monotonic() + _LEAST_S
        self._at = time.monotonic()
        self.mb = 0.0

    def look(self) -> float:
        """Returns the latest size, measured again if that is due."""
        began = time.monotonic()
        if not self._folders or began < self._next:
            return self.mb
        before, self.mb = self.mb, self._measure()
        took = time.monotonic() - began
        # While the size grows, it is measured again at half of the estimated time to the limit.
        growth = max(self.mb - before, 0.0) / max(began - self._at, 1e-6)
        room = (self._limit_mb - self.mb) / growth / 2 if growth > 0 else _LEAST_S * 8
        self._at = began
        self._next = began + max(took * _SHARE, min(_LEAST_S * 8, room), _LEAST_S / 2)
        return self.mb

    def _measure(self) -> float:
        """The size in MB; counting stops beyond the limit."""
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
            continue  # deleted meanwhile, or not readable
