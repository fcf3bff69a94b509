"""The builds of torch that tests find here: the two of every checkout, and a store that outlives a run."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from accel_lab.environments.store.folder import Store

#: The folder that ACCEL_LAB_STORE names; empty: every test fetches what it needs into a folder of its own.
KEPT = os.environ.get("ACCEL_LAB_STORE", "")
#: The releases that golden cases differ between and that need no download.
OLD, NEW = "2.13.0", "2.14.1"


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


@functools.cache
def release_of(python: str) -> str:
    """The public version of the torch that an interpreter has, from its metadata."""
    code = "from importlib.metadata import version; print(version('torch').split('+')[0])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60).stdout.strip()


def two_builds(pythons: Sequence[str]) -> tuple[str, str]:
    """The interpreters of ``OLD`` and ``NEW`` among these; else the test is skipped."""
    found = {release_of(python): python for python in reversed(pythons)}
    if OLD not in found or NEW not in found:
        pytest.skip(f"torch {OLD} and {NEW} are not both here: name interpreters in ACCEL_LAB_PYTHONS")
    return found[OLD], found[NEW]
