"""Finds the files that a script needs from its source: imported modules and files named in strings.

Nothing is run, so a name that is composed at run time is not found.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from accel_lab.execution.programs import CAPSULE
from accel_lab.reporting.bundle.kinds_of_files import is_environment, is_secret
from accel_lab.reporting.bundle.local_imports import MAX_MODULES, imported_names, module_files

#: Limits for one script: total bytes, files of a named folder, and entries of it that are examined.
MOST_BYTES, MOST_OF_FOLDER, _MOST_LOOKED = 512 << 20, 500, 20_000
_MOST_TEXT = 4 << 20
_MOST_NAME = 255


@dataclass(kw_only=True)
class Needed:
    """Files below one folder, by relative path. ``size`` is their total in bytes."""

    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    size: int = 0

    def take(self, path: Path) -> bool:
        """Adds a regular file inside the folder, unless its name looks like a secret.

        Returns whether it did.
        """
        path = Path(os.path.normpath(path))
        try:
            if self.folder not in path.parents or not path.is_file() or is_secret(path):
                return False
            if self.folder.resolve() not in path.resolve().parents:
                return False
            size = path.stat().st_size
        except OSError:
            return False
        name = path.relative_to(self.folder).as_posix()
        if name in self.files or self.size + size > MOST_BYTES:
            return False
        self.files[name] = path
        self.size += size
        return True


def needed_beside(script: Path) -> dict[str, Path]:
    """Returns the files of a script's own folder that it imports or names, without the script."""
    found = Needed(folder=script.parent)
    if (script.parent / CAPSULE).is_file():
        for path in sorted(script.parent.iterdir()):
            if not path.name.startswith(".") and path != script:
                found.take(path)
    waiting, seen = [script], set[str]()
    while waiting and len(found.files) < MAX_MODULES:
        text = _text(waiting.pop())
        for name in imported_names(text):
            if name not in seen:
                seen.add(name)
                files = module_files(script.parent, name)
                waiting += [path for path in files if path != script and found.take(path)]
        _take_named(text, found, script)
    return found.files


def needed_from(cwd: Path, script: Path) -> dict[str, Path]:
    """Returns the files that a script names by paths relative to the working directory."""
    found = Needed(folder=cwd)
    _take_named(_text(script), found, script, folders=False)
    return found.files


def _take_named(text: str, found: Needed, script: Path, *, folders: bool = True) -> None:
    for name in _constants(text):
        path = Path(os.path.normpath(found.folder / name))
        if path == script or found.folder not in path.parents:
            continue
        if folders and _is_data(path):
            below = sorted(islice(path.rglob("*"), _MOST_LOOKED))
            for one in [one for one in below if not one.name.startswith(".")][:MOST_OF_FOLDER]:
                found.take(one)
        else:
            found.take(path)


def _is_data(path: Path) -> bool:
    """Whether a folder that the script names may contain data for it."""
    try:
        hidden = path.name.startswith((".", "__"))
        return path.is_dir() and not path.is_symlink() and not hidden and not is_environment(path)
    except OSError:
        return False


def _constants(text: str) -> Iterator[str]:
    """Yields the strings in a source that could be a path."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
            if 0 < len(name) <= _MOST_NAME and "\n" not in name and "\0" not in name:
                yield name


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""
