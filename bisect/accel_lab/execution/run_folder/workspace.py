"""The folders of a run: one per probe, with caches of its own and a view of the user's folders.

How a view is made is for :mod:`.surroundings` to know; what a probe writes in it is thrown away.
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
from accel_lab.core.untrusted.child_files import Refused
from accel_lab.execution.processes.guardian import GUARDIAN
from accel_lab.execution.processes.leftovers import temporary_folder

from .admission import admit, discard, identity
from .copies import remove
from .surroundings import Surroundings, View

#: In a probe's folder, and needed by its run only.
SCRATCH = ("view", "cwd", "cache")


#: The name of the copied child package, in ``lib``.
CHILD = "accel_lab_child"
#: A run needs some for its own files, in bytes.
LEAST_ROOM = 4 << 20
#: What a child can bring about with names and rights.
_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one probe lives, and what it sees. ``cwd`` may be the user's own folder, seen as a view.

    ``temporary`` is its ``TMPDIR``, ``made`` the identity of ``folder``.
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
        """All that the run may fill."""
        return self.folder, self.temporary


class Workspace:
    """The folder of one run: ``journal.jsonl``, ``probes/``, ``lib/``.

    ``views`` is how the user's folders are shown (see :mod:`.surroundings`); empty: the best that works here.
    """

    def __init__(self, root: Path, user_cwd: Path, *, views: str = "") -> None:
        self.root = root
        self.user_cwd = user_cwd
        (root / "probes").mkdir(parents=True, exist_ok=True)
        self.library = self._copy_child()
        self.surroundings = Surroundings(root=root, user_cwd=user_cwd, library=self.library, kind=views)

    def renew_child(self) -> None:
        """Copy the child again, where an earlier lab's copy lies."""
        remove(self.root / "lib")
        self._copy_child()

    def _copy_child(self) -> Path:
        """A copy of the child package that any interpreter can import, apart from the lab itself."""
        target = self.root / "lib" / CHILD
        if not target.exists():
            copy_child(target.parent)
        return target

    def place(self, probe: Probe) -> Place:
        """A fresh folder for a probe; what an interrupted attempt left there is removed."""
        folder = self.root / "probes" / probe.key
        if folder.exists():
            remove(folder)
        cache = folder / "cache"
        (cache / "triton").mkdir(parents=True)
        view = self.surroundings.view(probe, folder)
        return Place(
            folder=folder,
            cwd=view.cwd,
            cache=cache,
            temporary=temporary_folder(GUARDIAN.run),
            view=view,
            made=identity(folder),
        )

    def keep_text(self, text: str) -> Path:
        """A file of the run with the text, named by its digest."""
        folder = self.root / "edited"
        folder.mkdir(exist_ok=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.py"
        if not path.exists():
            write_atomic(path, text)
        return path

    def admit(self, place: Place) -> None:
        """Make what the run left safe to read; raises :class:`Refused` for what no child of ours leaves."""
        try:
            admit(place.folder, place.made, without=SCRATCH)
        except (Refused, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _CLOSED:
                raise  # the disk's doing, not the child's
            discard(place.folder, ("stdout.txt", "stderr.txt"))
            raise Refused(str(error)) from None

    def expect_room(self) -> None:
        """Raise :class:`DiskFull` where the run's disk is full, for a program fails by that in any way."""
        try:
            there = os.statvfs(self.root)
        except (AttributeError, OSError):
            return
        if there.f_blocks and there.f_bavail * there.f_frsize < LEAST_ROOM:
            raise DiskFull(f"the disk of {self.root} is full")

    def tidy(self, place: Place, keep: bool = False) -> None:
        """Remove what only the run itself needed; the records and artifacts stay."""
        for name in () if keep else SCRATCH:
            remove(place.folder / name)
        remove(place.temporary)

    def environment(self, place: Place, base: Mapping[str, str], bare: bool) -> dict[str, str]:
        """The user's environment with private caches; the bare run gets nothing else."""
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
            # A test runner cuts its summary at the width of the terminal, which is not there.
            env.setdefault("COLUMNS", "200")
        if "-p no:cacheprovider" not in env.get("PYTEST_ADDOPTS", ""):
            env["PYTEST_ADDOPTS"] = (env.get("PYTEST_ADDOPTS", "") + " -p no:cacheprovider").strip()
        return env


def copied_folders() -> list[tuple[Path, str, str]]:
    """The folders of the child's copy: each with its place there, and a file that is left out (or empty).

    What lab and child agree on lies inside the child, in the place of the module that stands for it. Adapters
    and the mock lie beside it, under their own name; so does the file :func:`package_file`.
    """
    source = package_file().parent
    beside = [(source / name, f"accel_lab/{name}", "") for name in ("accelerators", "mock", "protocol")]
    return [(source / "child", CHILD, "protocol.py"), (source / "protocol", f"{CHILD}/protocol", ""), *beside]


def package_file() -> Path:
    """The file that makes ``accel_lab`` a package, here and in a copy."""
    return Path(accel_lab.__file__)


def copy_child(library: Path) -> None:
    """Copy the child package into a folder, with what belongs to it."""
    for folder, place, without in copied_folders():
        _copy(folder, library / place, "__pycache__", without)
    shutil.copy2(package_file(), library / "accel_lab")


def _copy(source: Path, target: Path, *without: str) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*without))


def write_job(place: Place, job: Mapping[str, Any], name: str = "job.json") -> Path:
    """The job file that the child reads."""
    path = place.folder / name
    path.write_text(json.dumps(job), encoding="utf-8")
    return path
