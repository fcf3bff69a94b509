"""What a run left in its folder, once nothing of the run lives: files and folders stay, all else goes.

After this no reader of the folder can meet a link, a pipe, a device or a socket: see
:mod:`accel_lab.core.child_files`, which does not rely on it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from accel_lab.core.child_files import Refused, kind_of

from .copies import remove

#: More files than these no child of ours leaves.
MOST = 50_000


def identity(folder: Path) -> tuple[int, int]:
    """What tells a folder from another one that is put in its place."""
    there = os.lstat(folder)
    return there.st_dev, there.st_ino


def admit(folder: Path, made: tuple[int, int], *, without: Collection[str]) -> None:
    """Make a run's folder safe to read, or raise :class:`Refused` once it is; ``without`` are not looked at.

    ``made`` is the folder's :func:`identity` when it was made.
    """
    try:
        same = identity(folder) == made
    except OSError:
        same = False
    if not same:
        _empty(folder)
        raise Refused("its folder was removed or replaced")
    folder.chmod(stat.S_IRWXU | 0o055)
    odd: list[str] = []
    count = 0
    for base, folders, files in os.walk(folder, onerror=_raise):
        if Path(base) == folder:
            folders[:] = [name for name in folders if name not in without]
        for name in (*folders, *files):
            count += 1
            path = Path(base, name)
            mode = os.lstat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                path.unlink()
                odd.append(f"{path.relative_to(folder)} is {kind_of(mode)}")
            elif not mode & stat.S_IRUSR:
                path.chmod(stat.S_IRWXU)
        if count > MOST:
            raise Refused(f"more than {MOST:,} files")
    if odd:
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        raise Refused(f"{odd[0]}, not a file{more}")


def discard(folder: Path, keep: Collection[str]) -> None:
    """Remove all that a run left but what is named and is a file: it was refused, and is read by nobody."""
    folder.chmod(stat.S_IRWXU | 0o055)
    for entry in list(os.scandir(folder)):
        if entry.name not in keep or not entry.is_file(follow_symlinks=False):
            if entry.is_dir(follow_symlinks=False):
                remove(Path(entry.path))
            else:
                os.unlink(entry.path)


def _empty(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        folder.unlink()
    elif folder.exists():
        remove(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _raise(error: OSError) -> None:
    if isinstance(error, PermissionError) and error.filename is not None:
        os.chmod(error.filename, stat.S_IRWXU)
        raise Refused(f"{Path(error.filename).name} could not be entered")
    raise error
