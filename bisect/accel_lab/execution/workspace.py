"""The folders of a run: one per probe with a working directory and caches of its own.

The working directory shows the user's own one, so that relative paths work: small files as copies,
large ones and folders as links. New files land in the private directory and are thrown away.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accel_lab
from accel_lab.core.probe import Probe

COPY_BYTES = 1 << 20
COPY_TOTAL_BYTES = 64 << 20
MAX_ENTRIES = 2000


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one probe lives."""

    folder: Path
    cwd: Path
    cache: Path

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"


class Workspace:
    """The folder of one run: ``journal.jsonl``, ``probes/``, ``lib/``."""

    def __init__(self, root: Path, user_cwd: Path) -> None:
        self.root = root
        self.user_cwd = user_cwd
        (root / "probes").mkdir(parents=True, exist_ok=True)
        self.library = self._copy_child()

    def _copy_child(self) -> Path:
        """A copy of the child package that any interpreter can import, apart from the lab itself."""
        source = Path(accel_lab.__file__).parent / "child"
        target = self.root / "lib" / "accel_lab_child"
        if not target.exists():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            self._copy_mock(source.parent, target.parent / "accel_lab")
        return target

    @staticmethod
    def _copy_mock(source: Path, target: Path) -> None:
        """The mock accelerator beside it, under its own name, without the rest of the lab."""
        shutil.copytree(source / "mock", target / "mock", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(source / "__init__.py", target)

    def place(self, probe: Probe) -> Place:
        """A fresh folder for a probe; what an interrupted attempt left there is removed."""
        folder = self.root / "probes" / probe.key
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
        cwd, cache = folder / "cwd", folder / "cache"
        cwd.mkdir(parents=True)
        (cache / "triton").mkdir(parents=True)
        self._show_user_files(cwd)
        return Place(folder=folder, cwd=cwd, cache=cache)

    def tidy(self, place: Place, keep: bool = False) -> None:
        """Remove what only the run itself needed; the records and artifacts stay."""
        for folder in (place.cwd, place.cache):
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)

    def environment(self, place: Place, base: Mapping[str, str], bare: bool) -> dict[str, str]:
        """The user's environment with private caches; the bare run gets nothing else."""
        env = dict(base)
        env["TORCHINDUCTOR_CACHE_DIR"] = str(place.cache)
        env["TRITON_CACHE_DIR"] = str(place.cache / "triton")
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        env["PWD"] = str(place.cwd)
        if not bare:
            env.setdefault("PYTHONHASHSEED", "0")
            # A test runner cuts its summary at the width of the terminal, which is not there.
            env.setdefault("COLUMNS", "200")
        if "-p no:cacheprovider" not in env.get("PYTEST_ADDOPTS", ""):
            env["PYTEST_ADDOPTS"] = (env.get("PYTEST_ADDOPTS", "") + " -p no:cacheprovider").strip()
        return env

    def _show_user_files(self, cwd: Path) -> None:
        copied = 0
        try:
            entries = sorted(os.scandir(self.user_cwd), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries[:MAX_ENTRIES]:
            if entry.name in ("__pycache__", ".git", ".pytest_cache"):
                continue
            target = cwd / entry.name
            try:
                if entry.is_file() and entry.stat().st_size <= COPY_BYTES and copied < COPY_TOTAL_BYTES:
                    copied += entry.stat().st_size
                    shutil.copy2(entry.path, target)
                else:
                    target.symlink_to(Path(entry.path).absolute())
            except OSError:
                continue


def write_job(place: Place, job: Mapping[str, Any]) -> Path:
    """The job file that the child reads."""
    path = place.folder / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    return path
