"""Finds the running probes of a run from its growing journal."""

from __future__ import annotations

import threading
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.text import printable, shorten
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError, parsed

_ROW = {"event": str, "key?": str, "label?": str}
_CHUNK = 4 << 20
_MOST_LABEL, _MOST_RUNNING, _MOST_ROW = 120, 16, 64 << 20


class JournalTail:
    """Reads a run's journal incrementally; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._files = ChildFiles(folder)
        self._lock = threading.Lock()
        self._at, self._rest = 0, b""
        self._running: dict[str, str] = {}

    def running(self) -> list[str]:
        """Returns the labels of the probes that have started and not ended."""
        with self._lock:
            while data := self._more():
                self._at += len(data)
                *rows, self._rest = (self._rest + data).split(b"\n")
                for row in rows:
                    self._heed(row)
                self._rest = self._rest if len(self._rest) <= _MOST_ROW else b""
            return list(self._running.values())[:_MOST_RUNNING]

    def _more(self) -> bytes:
        try:
            return self._files.part("journal.jsonl", self._at, _CHUNK, most=_CHUNK) or b""
        except (LabError, OSError):
            return b""

    def _heed(self, data: bytes) -> None:
        try:
            row = parsed(data, "journal.jsonl", _ROW)
        except UntrustedFileError:
            return
        key = row.get("key", "")
        if row["event"] == "running":
            self._running[key] = shorten(printable(row.get("label", "")), _MOST_LABEL)
        elif row["event"] == "ended":
            self._running.pop(key, None)
