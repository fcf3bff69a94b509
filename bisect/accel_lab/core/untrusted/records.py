"""Reads and checks the rows of ``records.jsonl``, the values that a run recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .child_files import MB, ChildFiles, UntrustedFileError
from .shapes import Range, Table, misfit

EVENTS, TENSORS = "records.jsonl", "tensors.bin"
EVENTS_BYTES = 512 * MB
#: The recorder writes up to ``Limits.record_mb`` of values and float64 references, plus samples.
TENSORS_BYTES = 1024 * MB
_MOST_DIMENSIONS = 64
#: Integers beyond this are kept as text: no float can represent them.
_MOST_NUMBER = 1 << 1000

_OFFSET, _COUNT = Range(0, 1 << 48), Range(0, 1 << 48)
_VALUE = (None, bool, float, str, [str])
_WHERE = {"offset": _OFFSET, "length": _COUNT, "dtype?": str}
_ROW = {
    "name?": str,
    "phase?": str,
    "path?": str,
    "call?": Range(0),
    "thread?": (None, Range(0)),
    "inputs?": (None, str),
    "region?": (None, int, str),
    "module?": (None, int, str),
    "kind?": str,
    "type?": str,
    "dtype?": str,
    "note?": str,
    "sha256?": str,
    "shares?": str,
    "shape?": (None, [_COUNT]),
    "stride?": (None, [int]),
    "offset?": (None, _OFFSET),
    "nbytes?": (None, _COUNT),
    "sample?": (None, {"step": Range(1), "offset?": (None, _OFFSET), "nbytes?": (None, _COUNT)}),
    "ref?": (None, _WHERE),
    "spread?": (None, _WHERE),
    "stats?": (None, Table((None, bool, float, str))),
    "bases?": (None, [str]),
    "changed?": (None, bool),
    "value?": _VALUE,
    "exact?": (None, {"value": _VALUE, "spread": (None, float, str)}),
}
_RANDOM = {"parts?": (None, Table(str)), "sha256?": str}


def rows(files: ChildFiles) -> Iterator[dict[str, Any]]:
    """Yields the events in order, up to a line that a crash truncated.

    Raises :class:`UntrustedFileError` if the file cannot be read or a value has the wrong type.
    """
    data = files.data(EVENTS, EVENTS_BYTES)
    for line in (data or b"").decode("utf-8", "replace").split("\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except RecursionError:
            raise UntrustedFileError(f"{EVENTS} is nested too deeply") from None
        except ValueError:
            return
        if isinstance(row, dict):
            yield _checked(row)


def values(files: ChildFiles) -> bytes:
    """Returns the tensors' bytes, which the offsets of the rows refer to."""
    return files.data(TENSORS, TENSORS_BYTES) or b""


def check(files: ChildFiles) -> None:
    """Raises :class:`UntrustedFileError` if the records are invalid; does not read the tensors' values."""
    for _ in rows(files):
        pass
    size = files.size(TENSORS)
    if size is not None and size > TENSORS_BYTES:
        raise UntrustedFileError(f"{TENSORS} has {size:,} bytes, {TENSORS_BYTES:,} at most are read")


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    kind = row.get("event")
    shape = _RANDOM if kind == "rng" else _ROW if kind in ("call", "end") else {}
    if wrong := misfit(row, shape):
        raise UntrustedFileError(f"{EVENTS}: {wrong}")
    if len(row.get("shape") or ()) > _MOST_DIMENSIONS:
        raise UntrustedFileError(f"{EVENTS}: shape has more than {_MOST_DIMENSIONS} dimensions")
    value = row.get("value")
    if isinstance(value, int) and not -_MOST_NUMBER < value < _MOST_NUMBER:
        row["value"] = hex(value)
    _as_number(row.get("exact"))
    return row


def _as_number(exact: dict[str, Any] | None) -> None:
    """Checks a number's float64 value: a number, text (inf) or a list of two texts (complex)."""
    if exact is None:
        return
    try:
        for one in (exact["value"], exact["spread"]):
            pair = one if isinstance(one, list) else [one]
            if len(pair) not in (1, 2):
                raise ValueError(f"{len(pair)} parts")
            for part in pair:
                float(0.0 if part is None else part)
    except (ValueError, OverflowError) as error:
        raise UntrustedFileError(f"{EVENTS}: exact is no number ({error})"[:200]) from None
