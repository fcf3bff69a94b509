"""Discovers the adapters that installed packages register as entry points.

It imports neither torch nor any adapter and runs on Python 3.8, so that any interpreter can list its
adapters.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

#: The entry-point group in which packages name their adapters.
GROUP = "accel_lab.adapters"
#: The lab's own adapters, in the syntax of entry points; no package has to register them.
BUILT_IN = {"mock": "accel_lab.mock.adapter:MockAdapter"}


class AdapterError(Exception):
    """Raised if an adapter is missing or invalid; the message says which, from where, and what is wrong."""


def adapters() -> dict[str, Any]:
    """Returns all adapters that can be loaded here, name to entry point, the lab's own first.

    Raises AdapterError if two packages register the same name.
    """
    own = {name: metadata.EntryPoint(name=name, value=value, group=GROUP) for name, value in BUILT_IN.items()}
    return {**own, **registered()}


def registered() -> dict[str, Any]:
    """Returns the adapters of installed packages, name to entry point, without importing them.

    Raises AdapterError if two packages register the same name, or one a name of the lab's own.
    """
    found: dict[str, Any] = {}
    for entry in _entries():
        other = found.setdefault(entry.name, entry)
        if entry.name in BUILT_IN or other.value != entry.value:
            first = "accel_lab" if entry.name in BUILT_IN else other.value
            raise AdapterError(
                f"two adapters are called {entry.name!r}: {first} and {entry.value}; uninstall one"
            )
    return found


def _entries() -> Any:
    every: Any = metadata.entry_points()
    # On Python 3.8 and 3.9 entry_points() returns a dict by group.
    return every.select(group=GROUP) if hasattr(every, "select") else every.get(GROUP, ())
