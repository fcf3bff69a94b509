"""Atomic file writes, and removal of folders regardless of their permissions."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Writes a file atomically: a reader sees the old content or the new one.

    Lone surrogates (from file names that are not UTF-8) are written as escapes.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    # An unpredictable name: a child may write to this folder, so it could plant a link at a known one.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if path.is_dir() and not path.is_symlink():
            remove(path)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove(folder: Path) -> None:
    """Removes a folder, fixing permissions as needed; skips what cannot be removed."""

    def again(function: object, path: str, error: object) -> None:
        try:
            for place in (os.path.dirname(path), path):
                if not os.path.islink(place):
                    os.chmod(place, stat.S_IRWXU)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except OSError:
            return

    try:
        shutil.rmtree(folder, onerror=again)
    except RecursionError:
        _flatten(folder)
        shutil.rmtree(folder, onerror=again)


def _flatten(folder: Path) -> None:
    """Moves all nested folders to the first level, so that rmtree does not recurse too deeply."""
    number, waiting = 0, [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    while waiting:
        outer = waiting.pop()
        try:
            os.chmod(outer, stat.S_IRWXU)
            inner = [entry.path for entry in os.scandir(outer) if entry.is_dir(follow_symlinks=False)]
            for path in inner:
                number += 1
                higher = os.path.join(folder, f"flat-{number}")
                os.rename(path, higher)
                waiting.append(higher)
        except OSError:
            continue
