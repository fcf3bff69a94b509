"""Files and folders on disk: written whole or not at all, removed whatever their rights."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it.

    Lone surrogates, which a file name that is not UTF-8 brings along, become escapes.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    # A name that nobody can have put a link at, for a child may write here.
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
    """Remove a folder whatever a script or the kernel did to the rights in it; what cannot be goes on."""

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
    """Bring every folder below up to the first level: no tree of any depth is too deep to be removed then."""
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
