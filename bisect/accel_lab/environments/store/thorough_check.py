"""Verifies a kept environment thoroughly: digests of its files, its packages, and a computation in torch."""

from __future__ import annotations

import base64
import csv
import hashlib
from pathlib import Path

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.commands import Commands
from accel_lab.environments.options import Run

from .folder import Entry, changed_files
from .quick_check import ask_interpreter

_TIMEOUT_S = 600.0
_SHOWN = 3
_CHUNK = 1 << 20


def verify_entry(entry: Entry, run: Run) -> list[str]:
    """Returns what is wrong with an environment, one line each; empty if it is unchanged and works."""
    faults = []
    changed = changed_files(entry.folder)
    if changed:
        faults.append(f"{len(changed)} files changed or gone: {_few(changed)}")
    damaged = [
        path for folder in entry.folder.glob("venv/lib/python3*/site-packages") for path in wrong(folder)
    ]
    if damaged and not changed:
        faults.append(f"{len(damaged)} files are not what their wheels hold: {_few(damaged)}")
    try:
        python = str(entry.folder / "venv" / "bin" / "python")
        facts = ask_interpreter(Commands(run, _TIMEOUT_S), python, full=True)
    except EnvironmentUnavailable as error:
        return [*faults, str(error)]
    made = entry.manifest.get("provenance", {})
    if facts["torch"] != made.get("torch"):
        faults.append(f"it holds torch {facts['torch']}, not {made.get('torch')}")
    if facts.get("packages") != made.get("packages"):
        were, are = made.get("packages") or {}, facts.get("packages") or {}
        names = sorted(name for name in {*were, *are} if were.get(name) != are.get(name))
        faults.append(f"packages are not those that were installed: {_few(names)}")
    return faults


def wrong(site_packages: Path) -> list[str]:
    """Returns the files whose digest differs from their wheel's RECORD."""
    found = []
    for record in sorted(site_packages.glob("*.dist-info/RECORD")):
        with open(record, encoding="utf-8", newline="") as rows:
            for row in csv.reader(rows):
                if len(row) == 3 and row[1].startswith("sha256=") and not row[0].endswith(".pyc"):
                    path = site_packages / row[0]
                    # Scripts are rewritten for their path at installation.
                    if not row[0].startswith("..") and _digest(path) != row[1].removeprefix("sha256="):
                        found.append(row[0])
    return found


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
