"""Loads an adapter by name and validates it; a broken adapter raises one clear AdapterError."""

from __future__ import annotations

import inspect
from typing import Any

from .adapter import AcceleratorAdapter
from .capabilities import AcceleratorCapabilities
from .discovery import AdapterError, adapters
from .settings import SettingError


def load_adapter(name: str) -> AcceleratorAdapter:
    """Loads, instantiates and validates the adapter of that name. Raises AdapterError."""
    known = adapters()
    entry = known.get(name)
    if entry is None:
        raise AdapterError(
            f"there is no adapter {name!r} in this environment; there is {', '.join(sorted(known))}"
        )
    try:
        loaded = entry.load()
    except Exception as error:
        raise AdapterError(
            f"adapter {name!r} ({entry.value}) cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return adapter_from(loaded, f"adapter {name!r} ({entry.value})")


def adapter_from(loaded: Any, what: str = "the adapter") -> AcceleratorAdapter:
    """Validates an adapter given as class, factory or instance; returns the instance. Raises AdapterError.

    A SettingError of the adapter's constructor is passed on: a variable of the user is wrong.
    """
    made = loaded
    if not isinstance(loaded, AcceleratorAdapter):
        if inspect.isclass(loaded) and not issubclass(loaded, AcceleratorAdapter):
            raise AdapterError(f"{what} is the class {loaded.__qualname__}, not an AcceleratorAdapter")
        if inspect.isabstract(loaded):
            missing = ", ".join(sorted(loaded.__abstractmethods__))
            raise AdapterError(f"{what} does not define {missing}")
        if not callable(loaded):
            raise AdapterError(f"{what} is a {type(loaded).__name__}, not an AcceleratorAdapter")
        try:
            made = loaded()
        except SettingError:
            raise  # the user's variable is invalid; the adapter is not at fault
        except Exception as error:
            raise AdapterError(f"{what} cannot be instantiated: {type(error).__name__}: {error}") from error
    if not isinstance(made, AcceleratorAdapter):
        raise AdapterError(f"{what} gives a {type(made).__name__}, not an AcceleratorAdapter")
    try:
        name: Any = made.name
        capabilities: Any = made.capabilities
    except Exception as error:
        raise AdapterError(
            f"{what} cannot report its capabilities: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(name, str) or not name:
        raise AdapterError(f"{what} has the name {name!r}, which is not a string")
    if not isinstance(capabilities, AcceleratorCapabilities):
        kind = type(capabilities).__name__
        raise AdapterError(f"{what} has capabilities of type {kind}, not AcceleratorCapabilities")
    if not hasattr(made, "_statistics"):
        raise AdapterError(f"{what} has an __init__ that does not call super().__init__()")
    return made
