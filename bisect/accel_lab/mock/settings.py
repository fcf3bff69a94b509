"""How the mock is set up: the environment's MOCK_* over the `[tool.accel-lab.mock]` table over the defaults.

A value that cannot be meant is refused with the name of the setting and what it may be. Faults have no entry
in the table: they are asked for by the environment alone, so that none is ever left on in a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import faults
from .device import STICK_BYTES, Device

SIDES = ("main", "reference")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


class SettingError(ValueError):
    """A setting has a value that it cannot have; the message names it and says what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that can be set.

    ``strict``: an operator that the device lacks is an error, not a fallback. ``alignment``: extents along
    the sticks should be multiples of it (a constraint; 1 asks for nothing). ``artifacts`` is a folder,
    empty for none.
    """

    front_end: str = "main"
    back_end: str = "main"
    strict: bool = False
    alignment: int = 1
    artifacts: str = ""
    device: Device = field(default_factory=Device)

    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings."""
        device = self.device
        return {
            "MOCK_FRONT_END": self.front_end,
            "MOCK_BACK_END": self.back_end,
            "MOCK_STRICT": str(int(self.strict)),
            "MOCK_ALIGNMENT": str(self.alignment),
            "MOCK_MAX_MEMORY": str(device.memory_bytes),
            "MOCK_CORES": str(device.cores),
            "MOCK_SPAN": str(device.span_bytes),
            "MOCK_SCRATCHPAD_BYTES": str(device.scratchpad_bytes),
            "MOCK_SCRATCHPAD": str(int(device.use_scratchpad)),
            "MOCK_CACHE": str(int(device.use_cache)),
            "MOCK_POISON": str(int(device.poison)),
            **({"ACCEL_LAB_MOCK_ARTIFACTS": self.artifacts} if self.artifacts else {}),
        }


def _side(name: str, value: object) -> str:
    if value not in SIDES:
        raise SettingError(f"{name} is {' or '.join(SIDES)}, not {value!r}")
    return str(value)


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise SettingError(f"{name} is 1 or 0 (true, false, yes, no, on, off), not {value!r}")


def _is_number(text: str) -> bool:
    """Whether this is a whole number; Python turns no text of thousands of digits into one."""
    return text.isdecimal() and len(text) <= 20


def _whole(name: str, value: object, low: int, high: int) -> int:
    text = str(value).strip()
    if isinstance(value, (bool, float)) or not _is_number(text) or not low <= int(text) <= high:
        raise SettingError(f"{name} is a whole number from {low} to {high}, not {value!r}")
    return int(text)


def _size(name: str, value: object) -> int:
    text = str(value).strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS and text[-1:] else (text, "")
    if isinstance(value, (bool, float)) or not _is_number(number) or int(number) * _UNITS[unit] < STICK_BYTES:
        raise SettingError(
            f"{name} is a number of bytes, at least {STICK_BYTES}, with K, M, G or T behind it or nothing, "
            f"not {value!r}"
        )
    return int(number) * _UNITS[unit]


def _text(name: str, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise SettingError(f"{name} is the path of a folder, not {value!r}")
    return os.fspath(value)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One setting: its key in the table, its variable, its field of Settings or of Device, its reader."""

    key: str
    variable: str
    field: str
    read: Callable[[str, object], Any]
    of_device: bool = False


_ENTRIES = (
    _Entry(key="front_end", variable="MOCK_FRONT_END", field="front_end", read=_side),
    _Entry(key="back_end", variable="MOCK_BACK_END", field="back_end", read=_side),
    _Entry(key="strict", variable="MOCK_STRICT", field="strict", read=_flag),
    _Entry(
        key="alignment",
        variable="MOCK_ALIGNMENT",
        field="alignment",
        read=lambda name, value: _whole(name, value, 1, 4096),
    ),
    _Entry(key="artifacts", variable="ACCEL_LAB_MOCK_ARTIFACTS", field="artifacts", read=_text),
    _Entry(key="max_memory", variable="MOCK_MAX_MEMORY", field="memory_bytes", read=_size, of_device=True),
    _Entry(
        key="cores",
        variable="MOCK_CORES",
        field="cores",
        read=lambda name, value: _whole(name, value, 1, 1024),
        of_device=True,
    ),
    _Entry(key="span", variable="MOCK_SPAN", field="span_bytes", read=_size, of_device=True),
    _Entry(
        key="scratchpad_bytes",
        variable="MOCK_SCRATCHPAD_BYTES",
        field="scratchpad_bytes",
        read=_size,
        of_device=True,
    ),
    _Entry(key="scratchpad", variable="MOCK_SCRATCHPAD", field="use_scratchpad", read=_flag, of_device=True),
    _Entry(key="cache", variable="MOCK_CACHE", field="use_cache", read=_flag, of_device=True),
    _Entry(key="poison", variable="MOCK_POISON", field="poison", read=_flag, of_device=True),
)
VARIABLES = (*(entry.variable for entry in _ENTRIES), faults.VARIABLE)
KEYS = tuple(entry.key for entry in _ENTRIES)


def read_settings(
    table: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, object] | None = None,
) -> Settings:
    """The settings: those given, else the environment's, else the table's, else the defaults.

    ``given`` has the table's keys (None says nothing), and may have ``device``: all of its sizes at once.
    Raises SettingError.
    """
    table, given = table or {}, given or {}
    environment = os.environ if environment is None else environment
    for unknown in (set(table) - set(KEYS), set(given) - {*KEYS, "device"}):
        if unknown:
            first = min(map(str, unknown))
            raise SettingError(f"the mock has no setting {first!r}; there are {', '.join(KEYS)}")
    _known_variables(environment)
    own: dict[str, Any] = {}
    of_device: dict[str, Any] = {}
    device = given.get("device")
    if device is not None and not isinstance(device, Device):
        raise SettingError(f"device is a Device of accel_lab.mock.device, not {device!r}")
    for entry in _ENTRIES:
        if given.get(entry.key) is not None:
            name, value = entry.key, given[entry.key]
        elif device is not None and entry.of_device:
            continue
        elif environment.get(entry.variable, "") != "":
            name, value = entry.variable, environment[entry.variable]
        elif entry.key in table:
            name, value = f"[tool.accel-lab.mock] {entry.key}", table[entry.key]
        else:
            continue
        (of_device if entry.of_device else own)[entry.field] = entry.read(name, value)
    return Settings(device=replace(device or Device(), **of_device), **own)


def _known_variables(environment: Mapping[str, str]) -> None:
    """Refuse faults that the catalogue does not have before anything is compiled."""
    if text := environment.get(faults.VARIABLE, ""):
        try:
            faults.parse(text)
        except faults.FaultError as error:
            raise SettingError(f"{faults.VARIABLE}: {error}") from error
