"""Reads the mock's settings: MOCK_* variables, else the ``[tool.accel-lab.mock]`` table, else defaults.

An invalid value raises an error with the setting's name and the allowed values. Faults can only be set by the
environment, so that none stays active in a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from accel_lab.accelerators.settings import (
    ALIGNED_DIMENSIONS,
    CONSTRAINTS,
    SettingError,
    near,
    read_flag,
    read_folder,
    read_size,
    read_whole,
)

from . import faults
from .sizes import Device

SIDES = ("main", "reference")
#: The name of a project file's settings in messages.
TABLE = "[tool.accel-lab.mock]"
#: Settings of the constraints, read by :mod:`.constraints`, and their variables.
CONSTRAINT_VARIABLES = {
    "constraints": "MOCK_CONSTRAINTS",
    "dtypes": "MOCK_DTYPES",
    "denied": "MOCK_DENIED",
    "errors": "MOCK_ERRORS",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of the mock.

    ``strict``: an unsupported operator is an error instead of a fallback. ``alignment``: a constraint that
    the extent along the sticks (with ``aligned_dimensions`` "all": every extent) is a multiple of this many
    elements; 1 disables it. ``artifacts`` is a folder, empty for none.
    """

    front_end: str = "main"
    back_end: str = "main"
    strict: bool = False
    alignment: int = 1
    aligned_dimensions: str = "last"
    artifacts: str = ""
    device: Device = field(default_factory=Device)

    def environment(self) -> dict[str, str]:
        """Returns the environment variables that give another process these settings."""
        device = self.device
        return {
            "MOCK_FRONT_END": self.front_end,
            "MOCK_BACK_END": self.back_end,
            "MOCK_STRICT": str(int(self.strict)),
            "MOCK_ALIGNMENT": str(self.alignment),
            "MOCK_ALIGNED_DIMENSIONS": self.aligned_dimensions,
            "MOCK_MAX_MEMORY": str(device.memory_bytes),
            "MOCK_CORES": str(device.cores),
            "MOCK_SPAN": str(device.span_bytes),
            "MOCK_SCRATCHPAD_BYTES": str(device.scratchpad_bytes),
            "MOCK_SCRATCHPAD": str(int(device.use_scratchpad)),
            "MOCK_CACHE": str(int(device.use_cache)),
            "MOCK_POISON": str(int(device.poison)),
            **({"ACCEL_LAB_MOCK_ARTIFACTS": self.artifacts} if self.artifacts else {}),
        }


def _one_of(*words: str) -> Callable[[str, object], str]:
    """A reader that accepts one of the given words."""

    def read(name: str, value: object) -> str:
        if value not in words:
            raise SettingError(f"{name} is {' or '.join(words)}, not {value!r}{near(str(value), words)}")
        return str(value)

    return read


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One setting: its key in the table, variable, field of Settings or Device, and reader."""

    key: str
    variable: str
    field: str
    read: Callable[[str, object], Any]
    of_device: bool = False


_ENTRIES = (
    _Entry(key="front_end", variable="MOCK_FRONT_END", field="front_end", read=_one_of(*SIDES)),
    _Entry(key="back_end", variable="MOCK_BACK_END", field="back_end", read=_one_of(*SIDES)),
    _Entry(key="strict", variable="MOCK_STRICT", field="strict", read=read_flag),
    _Entry(
        key="alignment",
        variable="MOCK_ALIGNMENT",
        field="alignment",
        read=lambda name, value: read_whole(name, value, 1, 4096),
    ),
    _Entry(
        key="aligned_dimensions",
        variable="MOCK_ALIGNED_DIMENSIONS",
        field="aligned_dimensions",
        read=_one_of(*ALIGNED_DIMENSIONS),
    ),
    _Entry(key="artifacts", variable="ACCEL_LAB_MOCK_ARTIFACTS", field="artifacts", read=read_folder),
    _Entry(
        key="max_memory", variable="MOCK_MAX_MEMORY", field="memory_bytes", read=read_size, of_device=True
    ),
    _Entry(
        key="cores",
        variable="MOCK_CORES",
        field="cores",
        read=lambda name, value: read_whole(name, value, 1, 1024),
        of_device=True,
    ),
    _Entry(key="span", variable="MOCK_SPAN", field="span_bytes", read=read_size, of_device=True),
    _Entry(
        key="scratchpad_bytes",
        variable="MOCK_SCRATCHPAD_BYTES",
        field="scratchpad_bytes",
        read=read_size,
        of_device=True,
    ),
    _Entry(
        key="scratchpad", variable="MOCK_SCRATCHPAD", field="use_scratchpad", read=read_flag, of_device=True
    ),
    _Entry(key="cache", variable="MOCK_CACHE", field="use_cache", read=read_flag, of_device=True),
    _Entry(key="poison", variable="MOCK_POISON", field="poison", read=read_flag, of_device=True),
)
KEYS = tuple(entry.key for entry in _ENTRIES)
#: The variable of each key of the table, including those of the constraints.
TABLE_VARIABLES = {**{entry.key: entry.variable for entry in _ENTRIES}, **CONSTRAINT_VARIABLES}
#: All environment variables that a run on the mock depends on.
VARIABLES = (*TABLE_VARIABLES.values(), faults.VARIABLE)


def read_settings(
    table: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, object] | None = None,
) -> Settings:
    """Reads the settings: from ``given``, else the environment, else the table, else defaults.

    ``given`` has the table's keys (None: not given) and optionally ``device``, which replaces all sizes.
    Raises SettingError.
    """
    table, given = table or {}, given or {}
    environment = os.environ if environment is None else environment
    _known(table, KEYS)
    _known(given, (*KEYS, "device"))
    _known_faults(environment)
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
            name, value = f"{TABLE} {entry.key}", table[entry.key]
        else:
            continue
        (of_device if entry.of_device else own)[entry.field] = entry.read(name, value)
    return Settings(device=replace(device or Device(), **of_device), **own)


def variables_of(table: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns a table's settings as variables, except those that the environment sets.

    Checks everything that can be checked without torch. Raises SettingError.
    """
    _known(table, TABLE_VARIABLES)
    read_settings({key: value for key, value in table.items() if key in KEYS}, environment)
    found: dict[str, str] = {}
    for key, value in table.items():
        if key in CONSTRAINT_VARIABLES and not isinstance(value, (str, list)):
            raise SettingError(f"{TABLE} {key} is a list, not {value!r}")
        if environment.get(TABLE_VARIABLES[key], "") == "":
            found[TABLE_VARIABLES[key]] = ",".join(value) if isinstance(value, list) else _text_of(value)
    for variable in (CONSTRAINT_VARIABLES["constraints"], CONSTRAINT_VARIABLES["errors"]):
        for word in filter(None, map(str.strip, {**environment, **found}.get(variable, "").split(","))):
            if word not in CONSTRAINTS:
                known = ", ".join(CONSTRAINTS)
                hint = near(word, CONSTRAINTS)
                raise SettingError(f"{variable}: there is no constraint {word!r}; there are {known}{hint}")
    return found


def _text_of(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _known(given: Mapping[str, object], keys: Iterable[str]) -> None:
    """Raises SettingError for unknown settings."""
    keys = tuple(keys)
    unknown = sorted(str(key) for key in given if key not in keys)
    if unknown:
        hint = near(unknown[0], keys)
        raise SettingError(f"the mock has no setting {unknown[0]!r}; there are {', '.join(keys)}{hint}")


def _known_faults(environment: Mapping[str, str]) -> None:
    """Raises SettingError for unknown faults, before anything is compiled."""
    if text := environment.get(faults.VARIABLE, ""):
        try:
            faults.parse(text)
        except faults.FaultError as error:
            raise SettingError(f"{faults.VARIABLE}: {error}") from error
