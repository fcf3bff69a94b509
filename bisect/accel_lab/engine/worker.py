"""Runs a job on a worker: fetches its files, runs the command as a user would, and stores the run.

The job's script runs only in child processes of that command. An interrupted job resumes from its journal on
the same machine, whichever worker gets it.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accel_lab.core.errors import DiskFull, LabError
from accel_lab.core.machine.files import remove, write_atomic
from accel_lab.core.text import shorten
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.core.untrusted.shapes import Table
from accel_lab.execution.builds import inspect_build
from accel_lab.execution.run_folder.lock import InUse, held

from .job import LARGE_FILES, REQUEST, Answer, Ran, Request, State, file_digest, lab_identity
from .lab_command import ENDS, LabRun, newest_run, run_lab
from .packing import files_below, pack, unpack
from .store import Store, StoreLost

#: A job that was begun this often and never ended is given up, because it kills its workers.
MOST_STARTS = 3
#: Free bytes that a worker's disk needs to begin a job.
LEAST_FREE = 512 << 20
RAN = "ran.json"
_COMMANDS = frozenset({"bisect", "matrix", "bench"})
_PAUSE_S = 3.0
#: One job at a time for each worker, whatever its threads: a lock for each worker in the process.
_LOCKS: dict[str, threading.Lock] = {}


class Run(Protocol):
    """Runs a command of the lab: :func:`run_lab`, or a test's stand-in."""

    def __call__(self, words: list[str], *, cwd: Path, folder: Path) -> LabRun: ...


@functools.cache
def torch_of(python: str) -> str:
    """Returns the torch version of an interpreter; asked once in a worker's life."""
    with tempfile.TemporaryDirectory(prefix="accel-lab-build-") as folder:
        return inspect_build(python, Path(folder)).torch


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Runs one job by its key; picklable data, so that an engine can send it anywhere.

    ``store`` is the store's address. ``scratch`` is a folder on the worker's machine; empty means the
    engine's own.
    """

    store: str
    scratch: str = ""
    run: Run = run_lab
    torch_of: Callable[[str], str] = torch_of
    least_free: int = LEAST_FREE

    def __call__(self, key: str) -> str:
        """Returns the :class:`Answer` as JSON; failures of the job are answers too, not exceptions."""
        name = worker_name()
        with _LOCKS.setdefault(name, threading.Lock()):
            try:
                answer = self._perform(key, name)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                said = "its disk is full" if full else f"{error.strerror or error}: {error.filename or ''}"
                answer = Answer(key=key, state=State.UNFIT, said=said, worker=name)
            except (StoreLost, DiskFull) as error:
                answer = Answer(key=key, state=State.UNFIT, said=str(error), worker=name)
            except (LabError, ValueError) as error:
                answer = Answer(key=key, state=State.FAILED, said=shorten(str(error), 400), worker=name)
        return json.dumps(answer.to_json())

    def _perform(self, key: str, name: str) -> Answer:
        store = Store(self.store)
        place = self._folder() / key
        place.mkdir(mode=0o700, exist_ok=True)
        with _alone(place, lambda: store.has(run_name(key))) as ours:
            if not ours or store.has(run_name(key)):
                remove(place)
                return Answer(key=key, state=State.DONE, worker=name)
            begun = starts(store, key)
            if len(begun) >= MOST_STARTS:
                said = f"{len(begun)} workers ended while they ran it ({', '.join(begun)}): it was given up"
                return Answer(key=key, state=State.GIVEN_UP, said=said, worker=name)
            request = _fetched(store, key, place)
            python = request.python if os.access(request.python, os.X_OK) else sys.executable
            if why := self._unfit(request, python, place):
                return Answer(key=key, state=State.UNFIT, said=why, worker=name)
            mark = f"begun/{key}/{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
            store.mark(mark, name)
            try:
                answer = self._ran(store, request, key, place, python, name)
            except StoreLost:
                raise  # keep the results: this machine may get the job again
            except (LabError, OSError):
                store.drop(mark)
                remove(place)  # frees space, which is what a full disk needs
                raise
            if answer.state is not State.DONE:  # it failed without killing us, so this start does not count
                store.drop(mark)
            remove(place)
            return answer

    def _unfit(self, request: Request, python: str, place: Path) -> str:
        """Returns why this worker cannot run the job, or an empty string."""
        if request.lab != lab_identity():
            return f"its lab is {lab_identity()}, the job is of {request.lab}: install the same accel-lab"
        free = shutil.disk_usage(place).free
        if free < self.least_free:
            return f"its disk has {free >> 20:,} MB left, {self.least_free >> 20:,} MB are needed"
        if request.torch and (found := self.torch_of(python)) != request.torch:
            return f"{python} has torch {found} there, the job asks for {request.torch}"
        return ""

    def _ran(self, store: Store, request: Request, key: str, place: Path, python: str, name: str) -> Answer:
        began = time.monotonic()
        earlier = ChildFiles(place).json(RAN)
        if earlier is None:
            ended = self.run(_words(request, place, python), cwd=_inside(place, request.cwd), folder=place)
            if ended.exit_code not in ENDS:
                full = shutil.disk_usage(place).free < self.least_free // 8
                if full or (ended.exit_code == DiskFull.exit_code and "disk is full" in ended.said):
                    raise DiskFull(f"its disk is full ({shorten(ended.said, 200)})")
                said = shorten(ended.said, 400)
                return Answer(key=key, state=State.FAILED, said=said, worker=name)
            ran = Ran(
                key=key,
                origin=str(place),
                worker=name,
                exit_code=ended.exit_code,
                said=shorten(ended.said, 400),
                seconds=time.monotonic() - began,
                begun=tuple(starts(store, key)),
            )
            write_atomic(place / RAN, json.dumps(ran.to_json()))
        with tempfile.TemporaryDirectory(dir=place, prefix="pack-") as folder:
            target = Path(folder) / "run.zip"
            left = [(one, path) for one, path in files_below(place) if not one.startswith(("pack-", "job/"))]
            pack(target, left)
            store.put(target, run_name(key))
        return Answer(key=key, state=State.DONE, worker=name)

    def _folder(self) -> Path:
        """Returns the folder for jobs on this machine; raises LabError unless it belongs to the user."""
        folder = Path(self.scratch or _engine_folder())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise LabError(f"{folder} is not a folder of this user's own: remove it")
        return folder


def run_name(key: str) -> str:
    """Returns the name of a job's run in the store."""
    return f"runs/{key}.zip"


def job_name(key: str) -> str:
    """Returns the name of a job in the store."""
    return f"jobs/{key}.zip"


def file_name(digest: str) -> str:
    """Returns the name of a large file in the store; raises :class:`LabError` for an invalid hash."""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise LabError("a job names a file by what is no hash")
    return f"files/{digest}"


def starts(store: Store, key: str) -> list[str]:
    """Returns the workers that began a job and neither finished it nor failed cleanly, in order."""
    return [store.read(name)[:200] for name in store.names(f"begun/{key}")]


@contextmanager
def _alone(place: Path, done: Callable[[], bool]) -> Iterator[bool]:
    """Holds the lock of a job's folder, or waits until another worker did the job and yields False."""
    while True:
        try:
            with held(place):
                yield True
                return
        except InUse:
            if done():
                yield False
                return
            time.sleep(_PAUSE_S)


def _fetched(store: Store, key: str, place: Path) -> Request:
    """Fetches a job and unpacks its files below ``job/``; returns the request."""
    with tempfile.TemporaryDirectory(dir=place, prefix="pack-") as folder:
        source = Path(folder) / "job.zip"
        try:
            store.get(job_name(key), source)
        except FileNotFoundError:
            raise LabError(f"the store {store.url} has no job {key}") from None
        unpack(source, place / "job")
    left = ChildFiles(place / "job")
    request = Request.from_json(left.json(REQUEST))
    for name, digest in (left.json(LARGE_FILES, Table(str)) or {}).items():
        target = _inside(place, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            store.get(file_name(digest), target)
            whole = file_digest(target) == digest
        except FileNotFoundError:
            whole = False
        if not whole:  # the next attempt sends both again
            store.drop(file_name(digest))
            store.drop(job_name(key))
            raise LabError(f"a file of the job is lost or damaged in the store: {name}; ask again")
    if not request.words or request.words[0] not in _COMMANDS:
        raise LabError(f"a job asks for a command that no worker runs: {' '.join(request.words)[:80]}")
    _inside(place, request.cwd).mkdir(parents=True, exist_ok=True)
    return request


def _words(request: Request, place: Path, python: str) -> list[str]:
    """Returns the command line; an interrupted run of this machine is resumed."""
    command, *options = request.words
    if (earlier := newest_run(place)) is not None:
        return [command, "--resume", str(earlier)]
    script = [str(_inside(place, request.script)), *request.args] if request.script else []
    return [command, "--out", str(place / "runs"), "--python", python, *options, *script]


def _inside(place: Path, name: str) -> Path:
    """Resolves a path in the job's pack; raises :class:`LabError` if it leads outside."""
    root = place / "job"
    path = Path(os.path.normpath(root / name))
    if path != root and root not in path.parents:
        raise LabError(f"a job names {name!r}, which is not in its pack")
    return path


def worker_name() -> str:
    """Returns the address of the engine's worker, else the machine and pid."""
    found = _engine_worker()
    return str(getattr(found, "address", "")) or f"{platform.node()}:{os.getpid()}"


def _engine_folder() -> Path:
    """Returns a folder next to those of the engine's workers, which outlives each of them."""
    found = getattr(_engine_worker(), "local_directory", None)
    base = Path(found).parent if found else Path(tempfile.gettempdir())
    return base / f"accel-lab-jobs-{os.getuid()}"


def _engine_worker() -> object | None:
    try:
        from distributed import get_worker

        worker: object = get_worker()
        return worker
    except (ImportError, ValueError):  # not in a task of Dask
        return None


__all__ = [
    "LEAST_FREE",
    "MOST_STARTS",
    "RAN",
    "Worker",
    "file_name",
    "job_name",
    "run_name",
    "starts",
    "torch_of",
    "worker_name",
]
