"""The folder of environments: what is there, what it takes, when it was used, and how it goes away.

An environment appears by one rename when it is complete and vanishes by one rename before it is deleted, so
whoever looks sees a whole one or none. ``locks/KEY.lock`` is held exclusively while KEY is made or removed,
and shared as long as it is used.
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
    """Write a file so that others see the old text or the new one, and nothing else."""
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
    """Environments in ``envs/``, the installer's downloads in ``cache/``, indexes' answers in ``index/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environments = folder / "envs"
        self.cache = folder / "cache"
        self.memory = folder / "index"

    def lock(self, key: str) -> Lock:
        """The lock of an environment; not taken yet."""
        return Lock(self.folder / "locks" / f"{key}.lock")

    def place(self, key: str) -> Path:
        return self.environments / key

    def manifest(self, key: str) -> dict[str, Any] | None:
        """What is known of a complete environment, None if it is not there."""
        try:
            data = json.loads((self.place(key) / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("schema") == SCHEMA else None

    def start(self, key: str) -> Path:
        """An empty folder to make an environment in. The caller holds its lock: older ones are left-overs."""
        self.environments.mkdir(parents=True, exist_ok=True)
        for old in self.environments.glob(f"{_BUILDING}{key}-*"):
            shutil.rmtree(old, ignore_errors=True)
        place = self.environments / f"{_BUILDING}{key}-{secrets.token_hex(4)}"
        place.mkdir()
        return place

    def finish(self, building: Path, key: str, manifest: dict[str, Any]) -> Path:
        """Let a complete environment appear under its key."""
        write_file_list(building)
        text = json.dumps({"schema": SCHEMA, **manifest, "made_at": time.time()}, indent=1, sort_keys=True)
        write_atomic(building / MANIFEST, text)
        (building / USED).touch()
        self.remove(key)
        os.rename(building, self.place(key))
        return self.place(key)

    def remove(self, key: str) -> None:
        """Let an environment vanish. The caller holds its lock."""
        gone = self.environments / f"{_REMOVING}{key}-{secrets.token_hex(4)}"
        try:
            os.rename(self.place(key), gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def touch(self, key: str) -> None:
        """Note that an environment is used now."""
        try:
            (self.place(key) / USED).touch()
        except OSError:
            pass  # a store that may only be read

    def entries(self) -> list[Entry]:
        """All complete environments, the one used last first."""
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
        """Whether a process, this one included, uses the environment or makes it."""
        with self.lock(key) as lock:
            try:
                return not lock.take()
            except OSError:
                return False

    def sweep(self) -> None:
        """Delete what labs that were killed left half-made or half-removed."""
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
        """Held shared by who installs from the downloads, exclusively by who removes some."""
        return Lock(self.folder / "locks" / "downloads.lock")

    def try_remove(self, key: str, *, dry_run: bool = False) -> bool:
        """Remove an environment unless it is in use; says whether it went (or would)."""
        with self.lock(key) as lock:
            if not lock.take():
                return False
            if not dry_run:
                self.remove(key)
            return True

    def folders(self) -> list[Path]:
        """The folders of all environments, by key."""
        try:
            found = [p for p in self.environments.iterdir() if not p.name.startswith(".") and p.is_dir()]
        except OSError:
            return []
        return sorted(found)


def new_bytes(folder: Path) -> int:
    """What an environment added to the disk: files that no other one has, the copy in the cache aside."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(path, name))
            except OSError:
                continue
            total += stat.st_blocks * 512 if stat.st_nlink <= 2 else 0
    return total


# -- what an environment was when it was made --------------------------------------------------------


def _listed(folder: Path) -> Iterator[tuple[str, str]]:
    """Path and state of every file that must not change: byte code may be written anew at any time."""
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
    """Note size and time of every file, for :func:`changed_files`."""
    rows = [f"{state}\t{path}\n" for path, state in _listed(folder)]
    (folder / FILES).write_text("".join(rows), encoding="utf-8", errors="surrogateescape")


def changed_files(folder: Path) -> list[str]:
    """The files that are gone or are not what they were when the environment was made; new ones may be."""
    try:
        text = (folder / FILES).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return [FILES]
    was = {path: state for state, _, path in (row.partition("\t") for row in text.split("\n") if row)}
    now = dict(_listed(folder))
    return [path for path, state in was.items() if now.get(path) != state]
