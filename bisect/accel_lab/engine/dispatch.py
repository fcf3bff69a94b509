"""Has an engine run jobs: packs, sends and fetches each, and resubmits it if a worker fails.

The engine schedules; this module only resubmits lost jobs. A job whose run is in the store is not run again.
"""

from __future__ import annotations

import json
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accel_lab.core.errors import LabError
from accel_lab.core.text import shorten
from accel_lab.core.untrusted.child_files import ChildFiles

from .job import LARGE_FILES, REQUEST, Answer, PackedJob, Ran, State
from .packing import BadPack, pack, unpack
from .store import Store
from .worker import RAN, file_name, job_name, run_name, starts

#: Most submissions of one job.
MOST_TRIES = 6
#: Seconds between checks for connected workers.
LOOK_S = 30.0


class EngineLost(LabError):
    """The scheduler was ended or no longer answers (exit code 3)."""


class NotRun(LabError):
    """No worker could run this job; other jobs may still run."""


#: Message for a job that did not finish because the user stopped.
INTERRUPTED = "interrupted"


class Stopped(LabError):
    """The user asked to stop."""


class Engine(Protocol):
    """Runs functions of data on workers, with futures like those of :mod:`concurrent.futures`.

    If a future is cancelled that we did not cancel, the engine is gone.
    """

    @property
    def name(self) -> str:
        """The engine as the user typed it, such as ``dask:tcp://host:8786``."""

    @property
    def workers(self) -> int:
        """Number of workers that are connected now."""

    def submit(
        self, function: Callable[[str], str], text: str, *, key: str, avoid: Sequence[str]
    ) -> Future[str]:
        """Calls the function on a worker, if possible not one of ``avoid``; ``key`` names the call."""

    def close(self) -> None:
        """Drops calls that have not begun; workers finish what they have begun."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """The unpacked run of a job: its local folder, and the worker's record of it."""

    folder: Path
    ran: Ran


class Dispatch:
    """Runs one job at a time in the calling thread; thread-safe.

    ``listener`` gets a line for each fault of the engine. While jobs wait, it checks every ``look_s`` seconds
    for workers. Raises :class:`EngineLost`, :class:`NotRun`, :class:`Stopped` and
    :class:`~accel_lab.engine.store.StoreLost`.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        function: Callable[[str], str],
        *,
        listener: Callable[[str], None] = lambda line: None,
        look_s: float = LOOK_S,
    ) -> None:
        self._engine, self._store, self._function, self._listener = engine, store, function, listener
        self._stop = threading.Event()
        self._gone = ""
        self._lock = threading.Lock()
        self._futures: set[Future[str]] = set()
        self._unfit: dict[str, str] = {}
        self._look_s, self._looked, self._alone = look_s, time.monotonic(), False

    def stop(self) -> None:
        """Stops waiting. Workers finish what they have begun, and its results stay in the store."""
        self._stop.set()
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._futures)
        for future in waiting:
            future.cancel()

    def ask(self, job: PackedJob, name: str, folder: Path) -> Fetched:
        """Has a job run and fetches the run into ``folder``. ``name`` is the job's name for the user."""
        if not self._store.has(run_name(job.key)):
            self._send(job)
            self._have_run(job, name)
        try:
            return self._fetch(job, name, folder)
        except BadPack as error:
            # The store damaged it; the next attempt has it made again.
            self._store.drop(run_name(job.key))
            raise NotRun(f"its run in the store cannot be read ({error}): ask again") from None

    def _send(self, job: PackedJob) -> None:
        if self._store.has(job_name(job.key)):
            return
        with tempfile.TemporaryDirectory(prefix="accel-lab-job-") as folder:
            apart = job.apart
            for name, digest in apart.items():
                if not self._store.has(file_name(digest)):
                    self._store.put(job.files[name], file_name(digest))
            target = Path(folder) / "job.zip"
            texts = [(REQUEST, json.dumps(job.request.to_json())), (LARGE_FILES, json.dumps(apart))]
            pack(target, [(name, path) for name, path in job.files.items() if name not in apart], texts)
            self._store.put(target, job_name(job.key))

    def _have_run(self, job: PackedJob, name: str) -> None:
        said = ""
        for _ in range(MOST_TRIES):
            answer = self._answer(job)
            if answer.state is State.DONE:
                return
            said = f"{answer.said} (on {answer.worker})" if answer.worker else answer.said
            if answer.state is State.UNFIT:
                self._avoid(answer)
                self._listener(f"{name}: {said}; it goes to another worker")
                continue
            if answer.state is State.GIVEN_UP:
                for mark in self._store.names(f"begun/{job.key}"):  # lets the user try again
                    self._store.drop(mark)
            raise NotRun(said)
        raise NotRun(f"no worker could run it: {said}")

    def _answer(self, job: PackedJob) -> Answer:
        with self._lock:
            if self._stop.is_set():
                raise Stopped(INTERRUPTED)
            if self._gone:
                raise EngineLost(self._gone)
            avoid = sorted(self._unfit)
            future = self._engine.submit(
                self._function, job.key, key=f"accel-lab-{job.key}-{secrets.token_hex(4)}", avoid=avoid
            )
            self._futures.add(future)
        try:
            while not wait([future], timeout=self._look_s).done:
                self._look_for_workers()
            text = future.result()
        except CancelledError:
            if self._stop.is_set():
                raise Stopped(INTERRUPTED) from None
            raise self._lost() from None
        except LabError:
            raise
        except Exception as error:
            # Dask raises it after several workers ended with the task, which may not be the task's fault.
            if type(error).__name__ == "KilledWorker":
                said = "several workers ended while they had it"
                return Answer(key=job.key, state=State.UNFIT, said=said)
            line = shorten(" ".join(f"{type(error).__name__}: {error}".split()), 300)
            if isinstance(error, ModuleNotFoundError):
                line += ": install accel-lab on the workers"
            return Answer(key=job.key, state=State.FAILED, said=line)
        finally:
            with self._lock:
                self._futures.discard(future)
        return _read(text, job.key)

    def _look_for_workers(self) -> None:
        """Reports once that the scheduler has no workers, since jobs then wait without end."""
        with self._lock:
            due = time.monotonic() - self._looked >= self._look_s
            if not due:
                return
            self._looked = time.monotonic()
        none = self._engine.workers == 0
        if none and not self._alone:
            self._listener("no worker is connected to the scheduler: jobs wait for one")
        self._alone = none

    def _lost(self) -> EngineLost:
        """Records that the engine is gone and wakes all waiting threads, which would wait forever."""
        self._gone = f"the scheduler of {self._engine.name} is gone, or does not answer any more"
        self._wake()
        return EngineLost(self._gone)

    def _avoid(self, answer: Answer) -> None:
        if answer.worker:
            with self._lock:
                self._unfit[answer.worker] = answer.said

    def _fetch(self, job: PackedJob, name: str, folder: Path) -> Fetched:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="pack-") as apart:
            source = Path(apart) / "run.zip"
            try:
                self._store.get(run_name(job.key), source)
            except FileNotFoundError:
                raise BadPack("it is not there") from None
            unpack(source, folder)
        try:
            ran = Ran.from_json(ChildFiles(folder).json(RAN))
        except ValueError as error:
            raise BadPack(str(error)) from None
        if ran.key != job.key:
            raise BadPack("it is the run of another job")
        begun = starts(self._store, job.key)
        if len(begun) > 1:
            self._listener(f"{name}: lost on {', '.join(begun[:-1])}; finished on {begun[-1]}")
        return Fetched(folder=folder, ran=ran)


def _read(text: object, key: str) -> Answer:
    try:
        answer = Answer.from_json(json.loads(text)) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        answer = None
    if answer is None or answer.key != key:
        return Answer(key=key, state=State.FAILED, said="a worker's answer is not one of this lab's")
    return answer


__all__ = ["INTERRUPTED", "Dispatch", "Engine", "EngineLost", "Fetched", "NotRun", "Stopped"]
