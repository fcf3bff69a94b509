"""Where the lab keeps what outlives a run: in ``ACCEL_LAB_HOME``, else in the user's folders."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def state_folder() -> Path:
    """Where runs are kept unless ``--out`` says otherwise."""
    return _home() or Path(platformdirs.user_data_dir("accel-lab"))


def cache_folder() -> Path:
    """Where what can be made again is kept."""
    home = _home()
    return home / "cache" if home else Path(platformdirs.user_cache_dir("accel-lab"))


def environments_folder() -> Path:
    """Where environments are kept."""
    return (_home() or Path(platformdirs.user_cache_dir("accel-lab"))) / "environments"


def _home() -> Path | None:
    named = os.environ.get("ACCEL_LAB_HOME")
    return Path(named) if named else None
