"""The marker of a run folder: the lab removes only folders that carry it."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

from accel_lab import __version__
from accel_lab.core.errors import LabError
from accel_lab.core.untrusted.settings_files import home_folder

MARKER = "accel-lab-run.json"
SCHEMA = "accel-lab/run/1"
_MAX_BYTES = 4096


def mark(folder: Path, kind: str) -> None:
    """Marks a new folder as a run's. The marker contains the folder's name, so it is not valid in a copy.

    Raises :class:`LabError` if it cannot be written.
    """
    row = {
        "schema": SCHEMA,
        "kind": kind,
        "name": folder.name,
        "made": round(time.time(), 3),
        "accel_lab": __version__,
    }
    try:
        (folder / MARKER).write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot write to {folder} ({error.strerror}): choose another with --out") from None


def is_marked(folder: Path) -> bool:
    """Whether a folder has a valid marker."""
    return isinstance(_read(folder), dict)


def made_by(folder: Path) -> str:
    """Returns the command that made a marked folder, or an empty string."""
    row = _read(folder)
    kind = row.get("kind") if isinstance(row, dict) else None
    return kind if isinstance(kind, str) and kind.isalpha() else ""


def objection(folder: Path) -> str:
    """Returns why a folder must not be removed as a run, or an empty string if it may."""
    if folder.is_symlink():
        return "it is a link: name the folder itself"
    if not folder.is_dir():
        return "there is no such folder"
    found = _read(folder)
    if isinstance(found, str):
        return found
    real = Path(os.path.realpath(folder))
    if os.path.ismount(real):
        return "something is mounted there"
    places = filter(None, (Path(os.getcwd()), home_folder()))
    if any(real in (place, *place.parents) for place in places):
        return "you are in it, or your home folder is"
    if os.path.lexists(real / ".git"):
        return "it holds a repository"
    return ""


def _read(folder: Path) -> dict[str, Any] | str:
    """Returns the marker, or what is wrong with it. It follows no link and never blocks."""
    none = f"it has no marker of a run ({MARKER}); if it is one of an older version, remove it yourself"
    try:
        file = os.open(folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return none
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return none
        data = os.read(file, _MAX_BYTES + 1)
    finally:
        os.close(file)
    try:
        row = json.loads(data.decode("utf-8")) if len(data) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("schema"), str):
        return f"its {MARKER} is damaged"
    if row["schema"] != SCHEMA:
        return f"its {MARKER} is of another kind or version than {SCHEMA}"
    if row.get("name") != os.path.basename(os.path.abspath(folder)):
        return f"its {MARKER} is of a folder of another name: a copy, or renamed since"
    return row
