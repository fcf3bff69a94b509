"""Checks the mock's environment variables and its settings table before anything runs.

The table is copied into variables of this process, so that every run of the command sees it and a bundle can
set it again.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from accel_lab.accelerators.settings import SettingError
from accel_lab.cli.settings import read_settings
from accel_lab.core.errors import UsageError
from accel_lab.mock.settings import VARIABLES, variables_of

#: Similarity, from 0 to 1, above which an unknown ``MOCK_`` variable counts as a misspelt one.
_NEAR = 0.85


def set_up_mock(config: str | None = None) -> dict[str, str]:
    """Sets the mock's variables from the settings file's table, unless the environment already sets them.

    ``config`` names the file. Returns the variables that were set. Raises :class:`UsageError` for an unknown
    fault or key and for an invalid value.
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
    """Raises UsageError for a ``MOCK_`` variable that is close to a known one; others may not be ours."""
    for name in sorted(environment):
        near = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=_NEAR)
        if name.startswith("MOCK_") and name not in VARIABLES and near:
            raise UsageError(f"there is no variable {name}: did you mean {near[0]}?")
