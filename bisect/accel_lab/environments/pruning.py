"""What the store takes on disk, where files are shared, and what to remove so that it takes less."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .store import DAY_S, Store

Inode = tuple[int, int]
_MOST_NOTE = 1 << 16  # bytes


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Bytes on disk. ``own`` are those of files that no other environment has."""

    total: int
    own: int


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What happened to one environment: removed and why, or kept and why."""

    key: str
    label: str
    removed: bool
    why: str


class Census:
    """Every file of the store once, and who holds it: environments, the installer's unpacked downloads."""

    def __init__(self, store: Store) -> None:
        self._size: dict[Inode, int] = {}
        self._holders: dict[Inode, set[str]] = {}
        for folder in store.folders():
            for inode, size in blocks(folder):
                self._size[inode] = size
                self._holders.setdefault(inode, set()).add(folder.name)
        self._downloads: dict[Path, dict[Inode, int]] = {
            folder: dict(blocks(folder)) for folder in download_folders(store)
        }
        self._other = sum(dict(blocks(store.cache)).values()) - sum(
            sum(files.values()) for files in self._downloads.values()
        )

    @property
    def environments(self) -> dict[str, Usage]:
        """What each environment takes."""
        sums: dict[str, list[int]] = {}
        for inode, holders in self._holders.items():
            for key in holders:
                row = sums.setdefault(key, [0, 0])
                row[0] += self._size[inode]
                row[1] += self._size[inode] if len(holders) == 1 else 0
        return {key: Usage(total=total, own=own) for key, (total, own) in sums.items()}

    @property
    def together(self) -> int:
        """What all takes, downloads included."""
        held = dict(self._size)
        for files in self._downloads.values():
            held.update(files)
        return sum(held.values()) + self._other

    def needless(self, keys: Collection[str]) -> list[Path]:
        """The downloads of which none of these environments has a file."""
        return [folder for folder, files in self._downloads.items() if not self._is_needed(files, keys)]

    def takes(self, keys: Collection[str]) -> int:
        """What is left to take when only these environments stay, and the downloads that they share."""
        held = {i: self._size[i] for i, holders in self._holders.items() if not holders.isdisjoint(keys)}
        for files in self._downloads.values():
            if self._is_needed(files, keys):
                held.update(files)
        return sum(held.values()) + self._other

    def _is_needed(self, files: Iterable[Inode], keys: Collection[str]) -> bool:
        return any(not self._holders.get(inode, set()).isdisjoint(keys) for inode in files)


def prune(
    store: Store,
    *,
    keys: Iterable[str] = (),
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
) -> tuple[list[Pruned], int]:
    """Remove what ``keys`` name, what was not used for a time, and then the longest unused until all that
    is left takes at most ``max_bytes``. One that is in use stays.

    The downloads that no environment shares go with them. Returns what was done, and the bytes freed.
    """
    if not dry_run:
        store.sweep()
    census, entries = Census(store), store.entries()
    now, named = time.time(), set(keys)
    staying = {entry.key for entry in entries}
    done = []
    for entry in reversed(entries):
        age = now - entry.used
        if entry.key in named:
            why = "named"
        elif older_than_s is not None and age > older_than_s:
            why = f"not used for {age / DAY_S:.0f} days"
        elif max_bytes is not None and census.takes(staying) > max_bytes:
            why = "the store is over its size"
        else:
            continue
        removed = store.try_remove(entry.key, dry_run=dry_run)
        staying -= {entry.key} if removed else set()
        done.append(
            Pruned(key=entry.key, label=entry.label, removed=removed, why=why if removed else "in use")
        )
    left = census.takes(staying)
    if not dry_run and not _remove_downloads(store, census.needless(staying)):
        left = Census(store).together
    return done, census.together - left


def _remove_downloads(store: Store, folders: Collection[Path]) -> bool:
    """Remove unpacked downloads; not while something is installed from them."""
    with store.downloads_lock() as lock:
        if not lock.take():
            return False
        _forget(store, {folder.name.encode() for folder in folders})
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return True


def _forget(store: Store, names: Collection[bytes]) -> None:
    """Remove uv's notes that name these downloads: it would look there, and fail, rather than fetch anew."""
    for note in store.cache.glob("uv/wheels-v*/**/*"):
        try:
            if note.is_symlink():
                text = os.fsencode(os.readlink(note))
            elif note.is_file() and note.stat().st_size <= _MOST_NOTE:
                text = note.read_bytes()
            else:
                continue
        except OSError:
            continue  # gone meanwhile
        if any(name in text for name in names):
            note.unlink(missing_ok=True)


def download_folders(store: Store) -> list[Path]:
    """Where uv keeps what it has unpacked, a folder for each wheel."""
    return sorted(store.cache.glob("uv/archive-v*/*"))


def blocks(folder: Path) -> Iterator[tuple[Inode, int]]:
    """Inode and bytes on disk of every file below a folder; links are not followed."""
    stack = [str(folder)]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    else:
                        stat = entry.stat(follow_symlinks=False)
                        yield (stat.st_dev, stat.st_ino), stat.st_blocks * 512
        except OSError:
            continue  # removed by another lab meanwhile
