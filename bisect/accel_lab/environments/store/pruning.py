"""Measures environments on disk, including shared files, and removes them by name, age or total size."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .folder import DAY_S, Store

Inode = tuple[int, int]
_MOST_NOTE = 1 << 16  # bytes


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Bytes on disk. ``own`` are the bytes in files that no other environment shares."""

    total: int
    own: int


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What was done with one environment, and why."""

    key: str
    label: str
    removed: bool
    why: str


class Census:
    """Counts every file of the store once, with the environments and downloads that share it."""

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
        """The bytes of each environment."""
        sums: dict[str, list[int]] = {}
        for inode, holders in self._holders.items():
            for key in holders:
                row = sums.setdefault(key, [0, 0])
                row[0] += self._size[inode]
                row[1] += self._size[inode] if len(holders) == 1 else 0
        return {key: Usage(total=total, own=own) for key, (total, own) in sums.items()}

    @property
    def together(self) -> int:
        """Bytes of everything in the store, downloads included."""
        held = dict(self._size)
        for files in self._downloads.values():
            held.update(files)
        return sum(held.values()) + self._other

    def unused_downloads(self, keys: Collection[str]) -> list[Path]:
        """Returns the downloads that share no file with these environments."""
        return [folder for folder, files in self._downloads.items() if not self._is_needed(files, keys)]

    def takes(self, keys: Collection[str]) -> int:
        """Returns the bytes that remain if only these environments and the downloads they share stay."""
        held = {i: self._size[i] for i, holders in self._holders.items() if not holders.isdisjoint(keys)}
        for files in self._downloads.values():
            if self._is_needed(files, keys):
                held.update(files)
        return sum(held.values()) + self._other

    def _is_needed(self, files: Iterable[Inode], keys: Collection[str]) -> bool:
        return any(not self._holders.get(inode, set()).isdisjoint(keys) for inode in files)


class ItemCollection(Protocol):
    """Another collection of environments (images), as far as pruning needs it."""

    def entries(self) -> Sequence[StoredItem]: ...
    def takes(self, keys: Collection[str]) -> int: ...
    def try_remove(self, key: str, *, dry_run: bool = False) -> bool: ...


class StoredItem(Protocol):
    """One environment of a collection.

    ``used`` is None if no use is known, ``moment`` is the last use or creation.
    """

    @property
    def key(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def used(self) -> float | None: ...
    @property
    def moment(self) -> float: ...


def prune(
    store: Store | None,
    *,
    images: ItemCollection | None = None,
    keys: Iterable[str] = (),
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
) -> tuple[list[Pruned], int]:
    """Removes environments and images by key, by age, then the least recently used down to ``max_bytes``.

    ``max_bytes`` counts everything that stays, virtual environments and ``images``. Environments in use stay.
    Downloads that no environment shares are removed too. Returns what was done, and the freed bytes.
    """
    kept: list[_PrunedCollection] = []
    if store is not None:
        if not dry_run:
            store.sweep()
        kept.append(_PrunedStore(store))
    if images is not None:
        kept.append(_PrunedCollection(images))
    before = sum(pruned.together for pruned in kept)
    rows = [(entry, pruned) for pruned in kept for entry in pruned.collection.entries()]
    now, named = time.time(), set(keys)
    done = []
    for entry, pruned in sorted(rows, key=lambda row: row[0].moment):
        age = now - entry.moment
        if entry.key in named:
            why = "named"
        elif older_than_s is not None and age > older_than_s:
            why = f"not used for {age / DAY_S:.0f} days"
            if entry.used is None:
                why = f"made {age / DAY_S:.0f} days ago, and no use is known"
        elif max_bytes is not None and sum(one.left for one in kept) > max_bytes:
            why = "the store is over its size"
        else:
            continue
        removed = pruned.collection.try_remove(entry.key, dry_run=dry_run)
        pruned.staying -= {entry.key} if removed else set()
        done.append(
            Pruned(key=entry.key, label=entry.label, removed=removed, why=why if removed else "in use")
        )
    return done, before - sum(pruned.finish(dry_run) for pruned in kept)


class _PrunedCollection:
    def __init__(self, collection: ItemCollection) -> None:
        self.collection = collection
        self.staying = {entry.key for entry in collection.entries()}

    @property
    def together(self) -> int:
        """Bytes of everything before anything is removed."""
        return self.left

    @property
    def left(self) -> int:
        return self.collection.takes(self.staying)

    def finish(self, dry_run: bool) -> int:
        """Finishes the removal; returns the bytes that are left."""
        return self.left


class _PrunedStore(_PrunedCollection):
    """The folder of environments during pruning, with the shared downloads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._census = Census(store)
        super().__init__(_StoreCollection(store, self._census))

    @property
    def together(self) -> int:
        return self._census.together

    def finish(self, dry_run: bool) -> int:
        if not dry_run and not _remove_downloads(self._store, self._census.unused_downloads(self.staying)):
            return Census(self._store).together
        return self.left


@dataclass(frozen=True)
class _StoreCollection:
    store: Store
    census: Census

    def entries(self) -> Sequence[StoredItem]:
        return self.store.entries()

    def takes(self, keys: Collection[str]) -> int:
        return self.census.takes(keys)

    def try_remove(self, key: str, *, dry_run: bool = False) -> bool:
        return self.store.try_remove(key, dry_run=dry_run)


def _remove_downloads(store: Store, folders: Collection[Path]) -> bool:
    """Removes unpacked downloads, unless something is being installed from them."""
    with store.downloads_lock() as lock:
        if not lock.take():
            return False
        _forget(store, {folder.name.encode() for folder in folders})
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return True


def _forget(store: Store, names: Collection[bytes]) -> None:
    """Removes uv's cache entries for these downloads, because uv would fail on them."""
    for note in store.cache.glob("uv/wheels-v*/**/*"):
        try:
            if note.is_symlink():
                text = os.fsencode(os.readlink(note))
            elif note.is_file() and note.stat().st_size <= _MOST_NOTE:
                text = note.read_bytes()
            else:
                continue
        except OSError:
            continue  # removed meanwhile
        if any(name in text for name in names):
            note.unlink(missing_ok=True)


def download_folders(store: Store) -> list[Path]:
    """Returns uv's folders of unpacked wheels, one for each wheel."""
    return sorted(store.cache.glob("uv/archive-v*/*"))


def blocks(folder: Path) -> Iterator[tuple[Inode, int]]:
    """Yields inode and bytes on disk of every file below a folder; links are not followed."""
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
            continue  # another lab removed it meanwhile
