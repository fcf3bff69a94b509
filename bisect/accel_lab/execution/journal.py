"""The journal of a run: every probe before it starts and after it ended, so that nothing is asked twice."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from accel_lab.core.files import write_atomic as write_atomic
from accel_lab.core.outcome import Outcome
from accel_lab.core.untrusted.child_files import ChildFiles, Refused, believed, parsed
from accel_lab.core.untrusted.fact_shapes import FACTS, RAISED

#: More than the answers of any run take.
MOST_BYTES = 1 << 30
_ROW = {
    "event": str,
    "key?": str,
    "outcome?": {
        "status": str,
        "exit_code?": (None, int),
        "signal?": (None, int),
        "raised?": (None, RAISED),
        "seconds?": float,
        "peak_mb?": float,
        "folder?": str,
        "torch?": str,
        "python?": str,
        "warm?": bool,
        "facts?": {f"{name}?": shape for name, shape in FACTS.items()},
        "notes?": [str],
    },
}


class Journal:
    """One JSON line an event, flushed to disk at once; a torn last line (kill -9) is dropped on reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        data = ChildFiles(path.parent).data(path.name, MOST_BYTES) or b""
        self._answers = dict(_finished(data))
        self._stream = path.open("a", encoding="utf-8")
        if data and not data.endswith(b"\n"):
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
        with suppress(OSError):  # a full disk has been told of when it was written to
            self._stream.close()

    def _write(self, row: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(row, default=str) + "\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())


def _finished(data: bytes) -> list[tuple[str, Outcome]]:
    """The answers; a row that is none, whoever wrote it, is passed over."""
    found = []
    for line in data.decode("utf-8", "replace").split("\n"):
        if not line.strip():
            continue
        try:
            row = parsed(line, "journal.jsonl", _ROW)
            if row["event"] == "ended":
                with believed("journal.jsonl"):
                    found.append((row["key"], Outcome.from_json(row["outcome"])))
        except (Refused, KeyError):
            continue
    return found
