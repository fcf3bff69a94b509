"""The journal of a run: every probe before it starts and after it ended, so that nothing is asked twice."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from accel_lab.core.outcome import Outcome


class Journal:
    """One JSON line an event, flushed to disk at once; a torn last line (kill -9) is dropped on reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._answers = dict(_finished(path))
        self._stream = path.open("a", encoding="utf-8")
        if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
            self._stream.write("\n")

    @property
    def answered(self) -> int:
        """How many probes have an answer."""
        return len(self._answers)

    def answer(self, key: str) -> Outcome | None:
        """The outcome that an earlier run (or this one) found for a probe."""
        return self._answers.get(key)

    def started(self, key: str, label: str) -> None:
        self._write({"event": "running", "key": key, "label": label, "time": round(time.time(), 3)})

    def ended(self, key: str, outcome: Outcome) -> None:
        self._answers[key] = outcome
        self._write({"event": "ended", "key": key, "outcome": outcome.to_json()})

    def close(self) -> None:
        self._stream.close()

    def _write(self, row: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(row, default=str) + "\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())


def _finished(path: Path) -> list[tuple[str, Outcome]]:
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            if row.get("event") == "ended":
                found.append((row["key"], Outcome.from_json(row["outcome"])))
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
    return found


def write_atomic(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it.

    Lone surrogates, which a file name that is not UTF-8 brings along, become escapes.
    """
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
