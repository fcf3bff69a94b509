"""Finds a backend by its name in the lab, and reads the statistics that it reports. Runs in the child."""

from __future__ import annotations

import importlib
from typing import Any

from accel_lab.accelerators.discovery import registered

#: The greatest number of violations of one row that are listed with their lines.
MOST_LINES = 100


class Unavailable(Exception):
    """Raised if the backend does not exist here; the message is one line."""


def find(backend: Any) -> Any:
    """Returns (backend for ``torch.compile``, source of its statistics or None).

    Raises :class:`Unavailable` for an unknown name. Errors of the backend's own code are passed on.
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
    """Imports ``module:attribute``. Raises Unavailable if the module does not exist."""
    name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
        raise Unavailable(f"this accel-lab has no {name} yet") from None
    return getattr(module, attribute)


def _from_adapter(loaded: Any) -> Any:
    """The backend and statistics of an adapter, registered as class, instance or plain function."""
    adapter = loaded() if isinstance(loaded, type) else loaded
    backend = getattr(adapter, "backend", None)
    if not callable(backend):
        backend = adapter
    if not callable(backend):
        raise TypeError("the adapter is not callable and has no method `backend`")
    return backend, getattr(adapter, "statistics", None)


def statistics(report_of: Any) -> Any:
    """Returns the statistics that a backend reports for this process; missing ones are omitted.

    The report is a mapping, or an object with ``to_json()``, with ``kernels_generated``, ``fallbacks`` (by
    operator), ``violations``, and ``seconds`` by phase. Fallbacks and violations are numbers by name, entries
    with a ``count`` by name, or a list of entries with a name. Of the latter, ``op``, ``message`` and
    ``source`` of violations are kept.
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
    """The violations with a message, deduplicated, each as one line with the user's source line."""
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
