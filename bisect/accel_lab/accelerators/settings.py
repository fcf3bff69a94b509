"""Parses settings; an invalid value raises an error with the setting's name and the allowed values.

A value is a Python object (an argument, a TOML value) or the text of an environment variable.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

#: The lab's own constraints, in the order in which they are listed.
CONSTRAINTS = ("dtype", "layout", "alignment", "memory", "peak_memory", "unsupported", "scratchpad", "span")
#: The dimensions that an alignment applies to.
ALIGNED_DIMENSIONS = ("last", "all")
#: The smallest size accepted by :func:`read_size`, in bytes.
LEAST_BYTES = 128
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


class SettingError(ValueError):
    """Raised for an invalid value of a setting; the message has the setting's name and the allowed values."""


def read_flag(name: str, value: object) -> bool:
    """Parses a boolean. Raises SettingError."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise SettingError(f"{name} is 1 or 0 (true, false, yes, no, on, off), not {value!r}")


def read_whole(name: str, value: object, low: int, high: int) -> int:
    """Parses an integer from ``low`` to ``high``, both included. Raises SettingError."""
    text = str(value).strip()
    if isinstance(value, (bool, float)) or not _is_number(text) or not low <= int(text) <= high:
        raise SettingError(f"{name} is a whole number from {low} to {high}, not {value!r}")
    return int(text)


def read_size(name: str, value: object) -> int:
    """Parses a number of bytes with an optional unit (K, M, G, T: powers of 1024). Raises SettingError."""
    text = str(value).strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS and text[-1:] else (text, "")
    if isinstance(value, (bool, float)) or not _is_number(number) or int(number) * _UNITS[unit] < LEAST_BYTES:
        raise SettingError(
            f"{name} is a number of bytes, at least {LEAST_BYTES}, optionally with unit K, M, G or T, "
            f"not {value!r}"
        )
    return int(number) * _UNITS[unit]


def read_folder(name: str, value: object) -> str:
    """Returns a folder's path as str; the folder need not exist. Raises SettingError."""
    if not isinstance(value, (str, os.PathLike)):
        raise SettingError(f"{name} is the path of a folder, not {value!r}")
    return os.fspath(value)


def near(word: str, known: Iterable[str]) -> str:
    """Returns ``: did you mean X?`` if a known word is close, else an empty string."""
    found = difflib.get_close_matches(word[:80], list(known), 1)
    return f": did you mean {found[0]}?" if found else ""


def _is_number(text: str) -> bool:
    """Whether the text is an unsigned integer of at most 20 digits (int() refuses very long texts)."""
    return text.isdecimal() and len(text) <= 20
