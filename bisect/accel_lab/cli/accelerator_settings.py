"""The mock's variables and its table in the settings file, checked before anything runs.

The table becomes variables of this process, so that every run of a command gets it, and a bundle can set it
again.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from accel_lab.accelerators.settings import SettingError
from accel_lab.cli.settings import read_settings
from accel_lab.core.errors import UsageError
from accel_lab.mock.settings import VARIABLES, variables_of

#: How like a name of the mock's another one must be to be taken for a slip of the pen, of at most 1.
_NEAR = 0.85


def set_up_mock(config: str | None = None) -> dict[str, str]:
    """Set the variables that the file's table stands for, where the environment does not; those set.

    ``config`` names the file. Raises :class:`UsageError` in one line for a fault, a value or a key that there
    is not.
    """
    _no_slip(os.environ)
    table = read_settings(config).mock
    if not table and not any(os.environ.get(name) for name in VARIABLES):
        return {}
    try:
        found = variables_of(table, os.environ)
    except SettingError as error:
        raise UsageError(str(error)) from None
    os.environ.update(found)
    return found


def _no_slip(environment: Mapping[str, str]) -> None:
    """Refuse a variable whose name is a letter or two off; one that is unlike all may be somebody else's."""
    for name in sorted(environment):
        near = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=_NEAR)
        if name.startswith("MOCK_") and name not in VARIABLES and near:
            raise UsageError(f"there is no variable {name}: did you mean {near[0]}?")
