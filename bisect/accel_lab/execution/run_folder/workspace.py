"""The folders of a run: one for each probe, with its own caches and a view of the user's folders.

:mod:`.folder_views` makes the views; what a probe writes to its view is discarded.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accel_lab
from accel_lab.core.errors import DiskFull
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.probe import Probe
from accel_lab.core.untrusted.child_files import UntrustedFileError
from accel_lab.execution.processes.guardian import GUARDIAN
from accel_lab.execution.processes.leftovers import temporary_folder

from .admission import admit, discard, identity
from .copies import remove
from .folder_views import FolderViews, View

#: Folders in a probe's folder that only its run needs.
SCRATCH = ("view", "cwd", "cache")


#: Name of the copied child package in ``lib``.
CHILD = "accel_lab_child"
#: Free bytes that a run needs for its own files.
LEAST_ROOM = 4 << 20
#: Errors that a child can cause by names and permissions.
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


@dataclass(frozen=True, kw_only=True)
class Place:
    """The folders of one probe. ``cwd`` may be the user's own folder, seen through a view.

    ``temporary`` is its ``TMPDIR``. ``made`` is the identity of ``folder`` at its creation.
    """

    folder: Path
    cwd: Path
    cache: Path
    temporary: Path
    view: View
    made: tuple[int, int, int]

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"

    @property
    def written(self) -> tuple[Path, ...]:
        """The folders that the run may fill."""
        return self.folder, self.temporary


class Workspace:
    """The folder of one run: ``journal.jsonl``, ``probes/``, ``lib/``.

    ``views`` is the kind of view (see :mod:`.folder_views`); empty means the best that works here.
    """

    def __init__(self, root: Path, user_cwd: Path, *, views: str = "") -> None:
        self.root = root
        self.user_cwd = user_cwd
        (root / "probes").mkdir(parents=True, exist_ok=True)
        self.library = self._copy_child()
        self.folder_views = FolderViews(root=root, user_cwd=user_cwd, library=self.library, kind=views)

    def renew_child(self) -> None:
        """Replaces an earlier lab's copy of the child by a new one."""
        remove(self.root / "lib")
        self._copy_child()

    def _copy_child(self) -> Path:
        """Copies the child package, which any interpreter can import without the lab."""
        target = self.root / "lib" / CHILD
        if not target.exists():
            copy_child(target.parent)
        return target

    def place(self, probe: Probe) -> Place:
        """Makes a fresh folder for a probe; removes what an interrupted attempt left there."""
        folder = self.root / "probes" / probe.key
        if folder.exists():
            remove(folder)
        cache = folder / "cache"
        (cache / "triton").mkdir(parents=True)
        view = self.folder_views.view(probe, folder)
        return Place(
            folder=folder,
            cwd=view.cwd,
            cache=cache,
            temporary=temporary_folder(GUARDIAN.run),
            view=view,
            made=identity(folder),
        )

    def keep_text(self, text: str) -> Path:
        """Writes a text to a file named by its digest, and returns the path."""
        folder = self.root / "edited"
        folder.mkdir(exist_ok=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.py"
        if not path.exists():
            write_atomic(path, text)
        return path

    def admit(self, place: Place) -> None:
        """Makes the run's files safe to read; raises :class:`UntrustedFileError` for anything suspicious."""
        try:
            admit(place.folder, place.made, without=SCRATCH)
        except (UntrustedFileError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _CLOSED:
                raise  # a disk error, not the child's doing
            discard(place.folder, ("stdout.txt", "stderr.txt"))
            raise UntrustedFileError(str(error)) from None

    def expect_room(self) -> None:
        """Raises :class:`DiskFull` if the run's disk is full, since programs then fail in arbitrary ways."""
        try:
            there = os.statvfs(self.root)
        except (AttributeError, OSError):
            return
        if there.f_blocks and there.f_bavail * there.f_frsize < LEAST_ROOM:
            raise DiskFull(f"the disk of {self.root} is full")

    def tidy(self, place: Place, keep: bool = False) -> None:
        """Removes what only the run itself needed; records and artifacts stay."""
        for name in () if keep else SCRATCH:
            remove(place.folder / name)
        remove(place.temporary)

    def environment(self, place: Place, base: Mapping[str, str], bare: bool) -> dict[str, str]:
        """Returns the user's environment with private caches; other changes are not made for a bare run."""
        env = dict(base)
        env["TORCHINDUCTOR_CACHE_DIR"] = str(place.cache)
        env["TRITON_CACHE_DIR"] = str(place.cache / "triton")
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        env["PWD"] = str(place.cwd)
        env["TMPDIR"] = str(place.temporary)
        if "PYTHONPATH" in env:
            env["PYTHONPATH"] = place.view.inside(env["PYTHONPATH"])
        if not bare:
            env.setdefault("PYTHONHASHSEED", "0")
            # A test runner cuts its summary at the terminal's width, and there is no terminal.
            env.setdefault("COLUMNS", "200")
        if "-p no:cacheprovider" not in env.get("PYTEST_ADDOPTS", ""):
            env["PYTEST_ADDOPTS"] = (env.get("PYTEST_ADDOPTS", "") + " -p no:cacheprovider").strip()
        return env


def copied_folders() -> list[tuple[Path, str, str]]:
    """Lists the folders of the child's copy: source, place in the copy, and a file to leave out (or "").

    The protocol package is copied into the child, in place of the module that stands for it. Adapters, the
    mock and :func:`package_file` are next to the child under their own names.
    """
    source = package_file().parent
    beside = [(source / name, f"accel_lab/{name}", "") for name in ("accelerators", "mock", "protocol")]
    return [(source / "child", CHILD, "protocol.py"), (source / "protocol", f"{CHILD}/protocol", ""), *beside]


def package_file() -> Path:
    """Returns the ``__init__.py`` of ``accel_lab``, which is part of the copy too."""
    return Path(accel_lab.__file__)


def copy_child(library: Path) -> None:
    """Copies the child package and what it needs into a folder."""
    for folder, place, without in copied_folders():
        _copy(folder, library / place, "__pycache__", without)
    shutil.copy2(package_file(), library / "accel_lab")


def _copy(source: Path, target: Path, *without: str) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*without))


def write_job(place: Place, job: Mapping[str, Any], name: str = "job.json") -> Path:
    """Writes the job file that the child reads, and returns its path."""
    path = place.folder / name
    path.write_text(json.dumps(job), encoding="utf-8")
    return path
