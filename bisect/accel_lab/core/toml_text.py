"""Reads TOML on every Python of the lab: the standard library has it from 3.11 on, tomli before."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import LabError, UsageError


def read_toml(text: str, what: str) -> dict[str, Any]:
    """Parse ``text``; :class:`UsageError` says in one line what is wrong with ``what`` it is."""
    for name in ("tomllib", "tomli"):
        try:
            toml = importlib.import_module(name)
            break
        except ModuleNotFoundError:
            continue
    else:
        raise LabError(f"{what} cannot be read: on Python 3.10 that needs tomli (pip install tomli)")
    try:
        data: dict[str, Any] = toml.loads(text)
    except RecursionError:
        raise UsageError(f"{what} is not valid TOML: it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{what} is not valid TOML: {str(error)[:200]}") from None
    return data
