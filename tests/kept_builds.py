"""The store of torch builds that outlives a run of the tests, and what it has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accel_lab.environments.store import Store

#: The folder that ACCEL_LAB_STORE names; empty: every test fetches what it needs into a folder of its own.
KEPT = os.environ.get("ACCEL_LAB_STORE", "")


def why_not(releases: Sequence[str]) -> str:
    """Why builds of these releases cannot be used; empty if they are there or may be fetched."""
    specs = [entry.manifest.get("spec", {}) for entry in Store(Path(KEPT)).entries()] if KEPT else []
    there = {str(spec.get("torch", "")).split("+")[0] for spec in specs if not spec.get("pins")}
    missing = [release for release in releases if release not in there]
    if not missing or os.environ.get("ACCEL_LAB_DOWNLOADS"):
        return ""
    return f"torch {', '.join(missing)} not in ACCEL_LAB_STORE, and ACCEL_LAB_DOWNLOADS allows no download"
