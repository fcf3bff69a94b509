"""Makes a probe's folder safe to read after the probe has ended: only files and folders remain.

After this no reader can meet a link, pipe, device or socket; :mod:`accel_lab.core.untrusted.child_files` does
not rely on it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from itertools import islice
from pathlib import Path

from accel_lab.core.untrusted.child_files import UntrustedFileError, kind_of

from .copies import remove

#: Most files; no child of the lab writes more.
MOST = 50_000
MOST_DEPTH = 40
#: Endings of names that the lab's own code always writes as files.
_FILES = (".txt", ".json", ".jsonl", ".bin")


def identity(folder: Path) -> tuple[int, int, int]:
    """Returns device, inode and type, which distinguish a folder from one that replaced it."""
    there = os.lstat(folder)
    return there.st_dev, there.st_ino, stat.S_IFMT(there.st_mode)


def admit(folder: Path, made: tuple[int, int, int], *, without: Collection[str]) -> None:
    """Makes a probe's folder safe to read; raises :class:`UntrustedFileError` for anything suspicious in it.

    ``made`` is the folder's :func:`identity` at its creation. ``without`` names entries that are not checked.
    """
    try:
        same = identity(folder) == made
    except OSError:
        same = False
    if not same:
        _empty(folder)
        raise UntrustedFileError("its folder was removed or replaced")
    odd: list[str] = []
    count, waiting = 0, [(folder, 0)]
    while waiting:
        base, depth = waiting.pop()
        if depth > MOST_DEPTH:
            raise UntrustedFileError(f"folders in folders, more than {MOST_DEPTH} deep")
        for entry in _listed(base):
            count += 1
            if count > MOST:
                raise UntrustedFileError(f"more than {MOST:,} files")
            if base == folder and entry.name in without:
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and depth == 0 and entry.name.endswith(_FILES):
                remove(Path(entry.path))
                odd.append(f"{_named(entry.path, folder)} is a folder")
            elif stat.S_ISDIR(mode):
                waiting.append((Path(entry.path), depth + 1))
            elif not stat.S_ISREG(mode):
                os.unlink(entry.path)
                odd.append(f"{_named(entry.path, folder)} is {kind_of(mode)}")
            elif not mode & stat.S_IRUSR:
                os.chmod(entry.path, stat.S_IRUSR | stat.S_IWUSR)
    if odd:
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        raise UntrustedFileError(f"{odd[0]}, not a file{more}")


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    """Lists at most ``MOST`` + 1 entries of a folder, after restoring the owner's rights."""
    mode = os.lstat(folder).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
    with os.scandir(folder) as entries:
        return list(islice(entries, MOST + 1))


def _named(path: str, folder: Path) -> str:
    name = os.path.relpath(path, folder)[:100]
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def discard(folder: Path, keep: Collection[str]) -> None:
    """Removes everything from a refused folder except the files named in ``keep``."""
    _listed(folder)  # restores the rights
    for entry in os.scandir(folder):
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
