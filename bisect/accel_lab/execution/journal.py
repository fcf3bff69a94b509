"""The journal of a run: records each probe when it starts and when it ends, so that none is run twice."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from accel_lab.core.machine.files import write_atomic as write_atomic
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import PROTOCOL
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError, parsed, refuse_malformed
from accel_lab.core.untrusted.fact_shapes import FACTS, RAISED

#: Upper limit of what is read; larger than the journal of any run.
MOST_BYTES = 1 << 30
_ROW = {
    "event": str,
    "key?": str,
    "protocol?": int,
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
    """Writes one JSON line for each event and flushes it to disk; drops a torn last line when reading.

    ``unasked`` are the probes that were not started because the time budget was used up.

    Each answer follows the number of the lab-child protocol that it was given under. Answers of another
    protocol are ignored, and ``outdated`` is then its number; a ``replay`` uses them anyway.
    """

    def __init__(self, path: Path, *, replay: bool = False) -> None:
        self._path = path
        self._lock = threading.Lock()
        data = ChildFiles(path.parent).data(path.name, MOST_BYTES) or b""
        protocol, self._answers, self.unasked = _finished(data)
        self._stream = path.open("a", encoding="utf-8")
        if data and not data.endswith(b"\n"):
            self._stream.write("\n")
        self.outdated: int | None = None
        if protocol == PROTOCOL or replay:
            return
        if self._answers:
            self.outdated, self._answers = protocol, {}
        self._write({"event": "protocol", "protocol": PROTOCOL})

    @property
    def answered(self) -> int:
        """Number of probes with an answer."""
        return len(self._answers)

    def answer(self, key: str) -> Outcome | None:
        """Returns the recorded outcome of a probe, or None."""
        return self._answers.get(key)

    def started(self, key: str, label: str) -> None:
        self._write({"event": "running", "key": key, "label": label, "time": round(time.time(), 3)})

    def ended(self, key: str, outcome: Outcome) -> None:
        self._answers[key] = outcome
        self._write({"event": "ended", "key": key, "outcome": outcome.to_json()})

    def left_out(self, key: str, label: str) -> None:
        """Records that a probe was not started because the time budget was used up."""
        self.unasked.add(key)
        self._write({"event": "unasked", "key": key, "label": label})

    def close(self) -> None:
        with suppress(OSError):  # a full disk was reported at the write
            self._stream.close()

    def _write(self, row: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(row, default=str) + "\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())


def _finished(data: bytes) -> tuple[int, dict[str, Outcome], set[str]]:
    """Returns the last protocol number (0 if none), its answers and the unasked probes.

    Skips malformed rows.
    """
    protocol, found, unasked = 0, dict[str, Outcome](), set[str]()
    for line in data.decode("utf-8", "replace").split("\n"):
        if not line.strip():
            continue
        try:
            row = parsed(line, "journal.jsonl", _ROW)
            if row["event"] == "protocol" and row["protocol"] != protocol:
                protocol, found = row["protocol"], {}
            if row["event"] == "unasked":
                unasked.add(row["key"])
            if row["event"] == "ended":
                with refuse_malformed("journal.jsonl"):
                    found[row["key"]] = Outcome.from_json(row["outcome"])
        except (UntrustedFileError, KeyError):
            continue
    return protocol, found, unasked
