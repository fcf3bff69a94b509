"""Discovers the adapters that packages of an environment have registered.

It imports neither torch nor any adapter, so that an interpreter can be asked what there is; it runs on
Python 3.8 too.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

#: The entry-point group in which packages name their adapters.
GROUP = "accel_lab.adapters"
#: The adapters that the lab brings along, as entry points are written: their names need no package.
BUILT_IN = {"mock": "accel_lab.mock.adapter:MockAdapter"}


class AdapterError(Exception):
    """An adapter cannot be had or is not one; the message says which, from where, and what is wrong."""


def adapters() -> dict[str, Any]:
    """Name to entry point of all adapters that can be loaded here, the lab's own first.

    Raises AdapterError where two packages use one name.
    """
    own = {name: metadata.EntryPoint(name=name, value=value, group=GROUP) for name, value in BUILT_IN.items()}
    return {**own, **registered()}


def registered() -> dict[str, Any]:
    """Name to entry point of the adapters of packages; nothing of them is imported.

    Raises AdapterError where two packages use one name, or one takes a name of the lab's own.
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
    # Python 3.8 and 3.9 give a mapping by group.
    return every.select(group=GROUP) if hasattr(every, "select") else every.get(GROUP, ())
