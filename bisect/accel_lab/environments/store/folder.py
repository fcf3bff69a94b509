"""The store of environments: lists, adds, locks and removes them.

An environment appears by one rename when it is complete, and disappears by one rename before it is deleted,
so other processes see a complete one or none. ``locks/KEY.lock`` is held exclusively while KEY is made or
removed, and shared while it is used.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.machine.locks import Lock

SCHEMA = "accel-lab/environment/1"
MANIFEST, FILES, USED = "environment.json", "files.txt", "last-used"
_BUILDING, _REMOVING = ".building-", ".removing-"
DAY_S = 86_400.0


def write_atomic(path: Path, text: str) -> None:
    """Writes a file atomically: others see the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One environment of the store."""

    key: str
    folder: Path
    manifest: dict[str, Any]
    used: float
    in_use: bool

    @property
    def made(self) -> float:
        return float(self.manifest.get("made_at", 0.0))

    @property
    def moment(self) -> float:
        return self.used

    @property
    def label(self) -> str:
        spec = self.manifest.get("spec", {})
        return f"torch {spec.get('torch', '?')}{' slim' if spec.get('slim') else ''}"


class Store:
    """Environments in ``envs/``, uv's downloads in ``cache/``, answers of indexes in ``index/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environments = folder / "envs"
        self.cache = folder / "cache"
        self.memory = folder / "index"

    def lock(self, key: str) -> Lock:
        """Returns the lock of an environment, not yet taken."""
        return Lock(self.folder / "locks" / f"{key}.lock")

    def place(self, key: str) -> Path:
        return self.environments / key

    def manifest(self, key: str) -> dict[str, Any] | None:
        """Returns the manifest of a complete environment, or None."""
        try:
            data = json.loads((self.place(key) / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("schema") == SCHEMA else None

    def start(self, key: str) -> Path:
        """Makes an empty folder to build an environment in; the caller must hold the environment's lock.

        Folders of earlier builds are left over from killed labs and are removed.
        """
        self.environments.mkdir(parents=True, exist_ok=True)
        for old in self.environments.glob(f"{_BUILDING}{key}-*"):
            shutil.rmtree(old, ignore_errors=True)
        place = self.environments / f"{_BUILDING}{key}-{secrets.token_hex(4)}"
        place.mkdir()
        return place

    def finish(self, building: Path, key: str, manifest: dict[str, Any]) -> Path:
        """Moves a complete environment to its key's place and writes its manifest."""
        write_file_list(building)
        text = json.dumps({"schema": SCHEMA, **manifest, "made_at": time.time()}, indent=1, sort_keys=True)
        write_atomic(building / MANIFEST, text)
        (building / USED).touch()
        self.remove(key)
        os.rename(building, self.place(key))
        return self.place(key)

    def remove(self, key: str) -> None:
        """Removes an environment; the caller must hold its lock."""
        gone = self.environments / f"{_REMOVING}{key}-{secrets.token_hex(4)}"
        try:
            os.rename(self.place(key), gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def touch(self, key: str) -> None:
        """Records that an environment is used now."""
        try:
            (self.place(key) / USED).touch()
        except OSError:
            pass  # a read-only store

    def entries(self) -> list[Entry]:
        """Returns all complete environments, most recently used first."""
        found = []
        for folder in self.folders():
            manifest = self.manifest(folder.name)
            if manifest is None:
                continue
            try:
                used = (folder / USED).stat().st_mtime
            except OSError:
                used = float(manifest.get("made_at", 0.0))
            found.append(
                Entry(
                    key=folder.name,
                    folder=folder,
                    manifest=manifest,
                    used=used,
                    in_use=self.is_used(folder.name),
                )
            )
        return sorted(found, key=lambda entry: -entry.used)

    def is_used(self, key: str) -> bool:
        """Whether a process, including this one, uses or makes the environment."""
        with self.lock(key) as lock:
            try:
                return not lock.take()
            except OSError:
                return False

    def sweep(self) -> None:
        """Deletes half-made and half-removed environments of killed labs."""
        if not self.environments.is_dir():
            return
        for folder in self.environments.iterdir():
            if folder.name.startswith(_REMOVING):
                shutil.rmtree(folder, ignore_errors=True)
            elif folder.name.startswith(_BUILDING):
                key = folder.name.removeprefix(_BUILDING).rpartition("-")[0]
                with self.lock(key) as lock:
                    if lock.take():
                        shutil.rmtree(folder, ignore_errors=True)

    def downloads_lock(self) -> Lock:
        """Returns the lock of the downloads: shared for installing from them, exclusive for removing some."""
        return Lock(self.folder / "locks" / "downloads.lock")

    def try_remove(self, key: str, *, dry_run: bool = False) -> bool:
        """Removes an environment unless it is in use; returns whether it was (or would be) removed."""
        with self.lock(key) as lock:
            if not lock.take():
                return False
            if not dry_run:
                self.remove(key)
            return True

    def folders(self) -> list[Path]:
        """Returns the folders of all environments, sorted by key."""
        try:
            found = [p for p in self.environments.iterdir() if not p.name.startswith(".") and p.is_dir()]
        except OSError:
            return []
        return sorted(found)


def new_bytes(folder: Path) -> int:
    """Returns the bytes that an environment added to the disk.

    Files with more than two links are shared with other environments; the second link is in the cache.
    """
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(path, name))
            except OSError:
                continue
            total += stat.st_blocks * 512 if stat.st_nlink <= 2 else 0
    return total


# -- detecting changes -------------------------------------------------------------------------------


def _listed(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields path and state of every file that must not change; byte code is skipped."""
    stack = [""]
    while stack:
        inner = stack.pop()
        with os.scandir(os.path.join(folder, inner)) as entries:
            for entry in entries:
                path = f"{inner}{entry.name}"
                if entry.is_symlink():
                    yield path, f"-> {os.readlink(entry.path)}"
                elif entry.is_dir():
                    if entry.name != "__pycache__":
                        stack.append(f"{path}/")
                elif path not in (MANIFEST, FILES, USED):
                    stat = entry.stat()
                    yield path, f"{stat.st_size} {stat.st_mtime_ns}"


def write_file_list(folder: Path) -> None:
    """Records size and time of every file, for :func:`changed_files`."""
    rows = [f"{state}\t{path}\n" for path, state in _listed(folder)]
    (folder / FILES).write_text("".join(rows), encoding="utf-8", errors="surrogateescape")


def changed_files(folder: Path) -> list[str]:
    """Returns the files that are missing or changed since the environment was made; new files are ignored."""
    try:
        text = (folder / FILES).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return [FILES]
    was = {path: state for state, _, path in (row.partition("\t") for row in text.split("\n") if row)}
    now = dict(_listed(folder))
    return [path for path, state in was.items() if now.get(path) != state]
