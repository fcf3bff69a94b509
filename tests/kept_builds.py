"""The store of torch builds that outlives a run of the tests, and what it has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accel_lab.environments.store import Store

#: The folder that ACCEL_LAB_STORE names; empty: every test fetches what it needs into a folder of its own.
KEPT = os.environ.get("ACCEL_LAB_STORE", "")


def _entries() -> list[tuple[str, Path]]:
    """Release and folder of the builds of the store that have the companions of their own time."""
    entries = Store(Path(KEPT)).entries() if KEPT else []
    specs = [(entry.manifest.get("spec", {}), entry.folder) for entry in entries]
    return [
        (str(spec.get("torch", "")).split("+")[0], folder) for spec, folder in specs if not spec.get("pins")
    ]


def interpreter(release: str) -> str | None:
    """The interpreter of a release that is in the store."""
    found = [folder / "venv" / "bin" / "python" for name, folder in _entries() if name == release]
    return next((str(python) for python in found if python.exists()), None)


def why_not(releases: Sequence[str]) -> str:
    """Why builds of these releases cannot be used; empty if they are there or may be fetched."""
    there = {name for name, _ in _entries()}
    missing = [release for release in releases if release not in there]
    if not missing or os.environ.get("ACCEL_LAB_DOWNLOADS"):
        return ""
    return f"torch {', '.join(missing)} not in ACCEL_LAB_STORE, and ACCEL_LAB_DOWNLOADS allows no download"
