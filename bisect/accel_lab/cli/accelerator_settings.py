"""The mock's variables and its table in the settings file, checked before anything runs.

The table becomes variables of this process, so that every run of a command gets it, and a bundle can set it
again.
"""

from __future__ import annotations

import os

from accel_lab.accelerators.settings import SettingError
from accel_lab.cli.settings import read_settings
from accel_lab.core.errors import UsageError
from accel_lab.mock.settings import VARIABLES, variables_of


def set_up_mock(config: str | None = None) -> dict[str, str]:
    """Set the variables that the file's table stands for, where the environment does not; those set.

    ``config`` names the file. Raises :class:`UsageError` in one line for a fault, a value or a key that there
    is not.
    """
    table = read_settings(config).mock
    if not table and not any(os.environ.get(name) for name in VARIABLES):
        return {}
    try:
        found = variables_of(table, os.environ)
    except SettingError as error:
        raise UsageError(str(error)) from None
    os.environ.update(found)
    return found
