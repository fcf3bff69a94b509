"""The folders of data that outlives a run: ``ACCEL_LAB_HOME``, else the user's data and cache folders."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def state_folder() -> Path:
    """Returns the folder of runs, the default for ``--out``."""
    return _home() or Path(platformdirs.user_data_dir("accel-lab"))


def cache_folder() -> Path:
    """Returns the folder of caches, whose content can be recreated."""
    home = _home()
    return home / "cache" if home else Path(platformdirs.user_cache_dir("accel-lab"))


def environments_folder() -> Path:
    """Returns the folder of environments."""
    return (_home() or Path(platformdirs.user_cache_dir("accel-lab"))) / "environments"


def _home() -> Path | None:
    named = os.environ.get("ACCEL_LAB_HOME")
    return Path(named) if named else None
