"""Where the lab keeps what outlives a run."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def state_folder() -> Path:
    """Where runs are kept unless ``--out`` says otherwise: ``ACCEL_LAB_HOME`` or the user's data folder."""
    home = os.environ.get("ACCEL_LAB_HOME")
    return Path(home) if home else Path(platformdirs.user_data_dir("accel-lab"))


def cache_folder() -> Path:
    """Where what can be made again is kept: ``cache`` in ``ACCEL_LAB_HOME``, or the user's cache folder."""
    home = os.environ.get("ACCEL_LAB_HOME")
    return Path(home) / "cache" if home else Path(platformdirs.user_cache_dir("accel-lab"))
