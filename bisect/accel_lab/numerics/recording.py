"""Reads the recording of a run: every value with its key, its float64 reference and its spread.

An event's key has the region's name, its number among regions of that name, the call, the phase and the path,
so that region numbers and the order of events do not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from accel_lab.core.untrusted import records
from accel_lab.core.untrusted.child_files import ChildFiles

from .comparison import number_of
from .dtypes import Array, decode, item_bytes
from .values import Record

#: Key of an event: region name, number among that name, call (-1: end of the run), phase, path.
Key = tuple[str, int, int, str, str]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded value.

    ``changed`` says whether a written input's values changed (None: not known). ``spread`` is how far random
    rounding moved the float64 values. ``thread`` is the number of the calling thread, ``inputs`` a digest of
    the call's arguments (``numerics.thread_calls``).
    """

    key: Key
    record: Record
    reference: Array | None = field(default=None, repr=False)
    spread: Array | None = field(default=None, repr=False)
    changed: bool | None = None
    thread: int = 0
    inputs: str = ""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """All values of one run, in the order in which they were written.

    ``half`` is true if an operator of the uncompiled run created a tensor of a half type.
    """

    entries: dict[Key, Entry] = field(default_factory=dict)
    random_state: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    half: bool = False

    @property
    def calls(self) -> dict[tuple[str, int], list[int]]:
        """The call numbers of each region ``(name, number)``."""
        calls_of: dict[tuple[str, int], list[int]] = {}
        for name, turn, call, _, _ in self.entries:
            if call >= 0:
                calls = calls_of.setdefault((name, turn), [])
                if call not in calls:
                    calls.append(call)
        return calls_of

    @property
    def magnitude(self) -> float:
        """The largest finite magnitude that the run recorded, as a scale for rounding errors."""
        greatest = 0.0
        for entry in self.entries.values():
            for name in ("min", "max"):
                number = entry.record.stats.get(name)
                if number is not None and math.isfinite(number):
                    greatest = max(greatest, abs(number))
        return greatest


def load(folder: str | Path) -> Recording:
    """Reads ``records.jsonl`` and ``tensors.bin``; stops at a line that a crash cut short.

    Raises ``UntrustedFileError`` for a file that cannot be read safely.
    """
    files = ChildFiles(folder)
    data: bytes | None = None
    entries: dict[Key, Entry] = {}
    notes: list[str] = []
    random_state: dict[str, str] = {}
    half = False
    turns = _Turns()
    for event in records.rows(files):
        data = records.values(files) if data is None else data
        kind = event.get("event")
        if kind == "note":
            notes.append(str(event.get("note", "")))
        elif kind == "half":
            half = True
        elif kind == "rng":
            random_state = dict(event.get("parts") or {"torch": event.get("sha256", "")})
        elif kind in ("call", "end"):
            entry = _entry(event, data, turns)
            entries.setdefault(entry.key, entry)
    return Recording(entries=entries, random_state=random_state, notes=tuple(notes), half=half)


class _Turns:
    """Numbers the regions that share a name, in the order of their first events."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Any]] = {}

    def of(self, name: str, region: Any) -> int:
        regions = self._seen.setdefault(name, [])
        if region not in regions:
            regions.append(region)
        return regions.index(region)


def _entry(event: dict[str, Any], data: bytes, turns: _Turns) -> Entry:
    name, phase = str(event.get("name", "")), str(event.get("phase", ""))
    path = str(event.get("path", ""))
    if event["event"] == "call":
        turn, call = turns.of(name, event.get("region")), int(event.get("call", 0))
    elif phase in ("leaf_grad", "input_grad"):
        turn, call = turns.of(name, event.get("region")), -1
        path = f"call {event.get('call', 0)} {path}"
    else:
        turn, call = turns.of(f"module {name}", event.get("module")), -1
    record = _record(event, data)
    reference, spread = _exact(event, data, record)
    return Entry(
        key=(name, turn, call, phase, path),
        record=record,
        reference=reference,
        spread=spread,
        changed=event.get("changed"),
        thread=event.get("thread") or 0,
        inputs=event.get("inputs") or "",
    )


def _record(event: dict[str, Any], data: bytes) -> Record:
    shape = tuple(event.get("shape") or ())
    dtype = str(event.get("dtype", ""))
    sample = event.get("sample") or {}
    whole = "offset" in event
    offset = event.get("offset") if whole else sample.get("offset")
    size = event.get("nbytes") if whole else sample.get("nbytes")
    values = None
    if offset is not None and size is not None and offset + size <= len(data):
        count = size // (item_bytes(dtype) or 1)
        values = _decoded(data[offset : offset + size], dtype, shape if whole else (count,))
    return Record(
        kind=str(event.get("kind", "object")),
        type=str(event.get("type", "")),
        dtype=dtype,
        shape=shape,
        stride=tuple(event.get("stride") or ()),
        shares=str(event.get("shares") or ""),
        sha256=str(event.get("sha256", "")),
        stats=event.get("stats") or {},
        value=event.get("value"),
        data=values,
        bases=tuple(event.get("bases") or ()),
        sample_step=None if whole or not sample else int(sample["step"]),
        note=str(event.get("note", "")),
    )


def _exact(event: dict[str, Any], data: bytes, record: Record) -> tuple[Array | None, Array | None]:
    """The float64 values of a record and their spread.

    float64 values computed from float64 have a spread but no reference; eager's own values are the reference.
    """
    number = event.get("exact")
    if isinstance(number, dict):
        spread = number.get("spread")
        return np.asarray(number_of(number.get("value"))), None if spread is None else np.asarray(
            float(spread)
        )
    if record.data is None:
        return None, None
    reference, spread = (_stored(event.get(name), data, record.data) for name in ("ref", "spread"))
    if reference is None and spread is not None:
        reference = record.data
    return reference, spread


def _stored(where: Any, data: bytes, values: Array) -> Array | None:
    if not where or where["offset"] + where["length"] > len(data):
        return None
    raw = data[where["offset"] : where["offset"] + where["length"]]
    return _decoded(raw, where.get("dtype", "float64"), values.shape)


def _decoded(raw: bytes, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """The decoded values; None if their number does not fit the shape."""
    try:
        return decode(raw, dtype, shape)
    except ValueError:
        return None
