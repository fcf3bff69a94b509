"""Finds a backend by what the lab calls it, and reads what it reports of its own work. Runs in the child."""

from __future__ import annotations

import importlib
from typing import Any

from accel_lab.accelerators.discovery import registered

#: So many violations of one row are listed with their lines.
MOST_LINES = 100


class Unavailable(Exception):
    """The backend is not there; the message says so in one line."""


def find(backend: Any) -> Any:
    """What ``torch.compile`` takes for a backend of the job, and what reports its statistics (or None).

    Raises :class:`Unavailable` where there is none of that name; a failure of its own code passes as it is.
    """
    target = backend["target"]
    if backend["adapter"]:
        entry = registered().get(target)
        if entry is None:
            raise Unavailable(f"no adapter {target!r} is registered in this environment")
        return _from_adapter(entry.load())
    if ":" not in target:
        return target, None
    report_of = backend.get("statistics")
    return _load(target), _load(report_of) if report_of else None


def _load(reference: str) -> Any:
    """The object behind ``module:attribute``."""
    name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
        raise Unavailable(f"this accel-lab has no {name} yet") from None
    return getattr(module, attribute)


def _from_adapter(loaded: Any) -> Any:
    """The backend of an adapter, registered as its class, as an instance, or as the plain function."""
    adapter = loaded() if isinstance(loaded, type) else loaded
    backend = getattr(adapter, "backend", None)
    if not callable(backend):
        backend = adapter
    if not callable(backend):
        raise TypeError("the adapter is not callable and has no method `backend`")
    return backend, getattr(adapter, "statistics", None)


def statistics(report_of: Any) -> Any:
    """What a backend reports of all its work in this process; what it does not report is left out.

    It gives a mapping, or an object with ``to_json()``: ``kernels_generated``; ``fallbacks`` by operator and
    ``violations``, as numbers by name, as entries with a ``count``, or as a list of entries with a name,
    whose ``op``, ``message`` and ``source`` are kept too; and ``seconds`` by part of the work.
    """
    reported: Any = report_of() if callable(report_of) else None
    if hasattr(reported, "to_json"):
        reported = reported.to_json()
    if not hasattr(reported, "get"):
        return {}
    found: Any = {}
    if reported.get("kernels_generated") is not None:
        found["kernels"] = int(reported["kernels_generated"])
    for name in ("fallbacks", "violations"):
        if reported.get(name) is not None:
            found[name] = _counts(reported[name])
    lines = _lines(reported.get("violations"))
    if lines:
        found["violation_lines"] = lines
    if reported.get("seconds") is not None:
        found["seconds"] = {str(part): float(value) for part, value in reported["seconds"].items()}
    return found


def _counts(reported: Any) -> Any:
    counts: Any = {}
    if hasattr(reported, "items"):
        for name, entry in reported.items():
            counts[str(name)] = int(entry["count"] if hasattr(entry, "get") else entry)
        return counts
    for entry in reported:
        names = [entry.get(key) for key in ("constraint", "name", "kind")]
        name = str(next((name for name in names if name), "unnamed"))
        counts[name] = counts.get(name, 0) + 1
    return counts


def _lines(reported: Any) -> Any:
    """Each violation that has a message once: constraint, operator, message, the user's line."""
    if not isinstance(reported, (list, tuple)):
        return []
    lines: Any = {}
    for entry in reported:
        if not hasattr(entry, "get") or not entry.get("message"):
            continue
        words = [entry.get(key) for key in ("constraint", "op", "message")]
        line = ": ".join(str(word) for word in words if word)
        if entry.get("source"):
            line += f" at {entry['source']}"
        lines[line[:500]] = None
    return list(lines)[:MOST_LINES]
