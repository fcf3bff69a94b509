"""Has jobs run by an engine: each is packed, sent, fetched back; where a worker fails, another one gets it.

The engine schedules; this only says again what has been lost. The run of a job that is in the store is never
asked for twice.
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

from .job import APART, REQUEST, Answer, PackedJob, Ran, State
from .packing import BadPack, pack, unpack
from .store import Store
from .worker import RAN, file_name, job_name, run_name, starts

#: A job is handed to a worker so often.
MOST_TRIES = 6
#: Seconds between two looks whether there are workers.
LOOK_S = 30.0


class EngineLost(LabError):
    """The engine is gone: its scheduler was ended, or no longer answers (exit code 3)."""


class NotRun(LabError):
    """No worker could run this job; the others may still be run."""


#: What is said of a job that was not run to its end because the user stopped.
INTERRUPTED = "interrupted"


class Stopped(LabError):
    """The user has asked to stop."""


class Engine(Protocol):
    """Runs functions of data on workers, by futures as :mod:`concurrent.futures` has them.

    A future that is cancelled without our doing says that the engine is gone.
    """

    @property
    def name(self) -> str:
        """What the user typed, as ``dask:tcp://host:8786``."""

    @property
    def workers(self) -> int:
        """How many workers there are now."""

    def submit(
        self, function: Callable[[str], str], text: str, *, key: str, avoid: Sequence[str]
    ) -> Future[str]:
        """Call the function on a worker, if possible on none of ``avoid``; ``key`` names the call."""

    def close(self) -> None:
        """Let go of what was not begun; workers finish what they have begun."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """The run of a job, unpacked: its folder here, and what the worker wrote of it."""

    folder: Path
    ran: Ran


class Dispatch:
    """Asks one job at a time in the thread that calls; many threads may.

    ``listener`` gets each fault of the engine in one line. While jobs are waited for it is looked every
    ``look_s`` seconds whether there are workers. Raises :class:`EngineLost`, :class:`NotRun`,
    :class:`Stopped` and :class:`~accel_lab.engine.store.StoreLost`.
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
        """End all waiting; what workers have begun they finish, and it is in the store then."""
        self._stop.set()
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._futures)
        for future in waiting:
            future.cancel()

    def ask(self, job: PackedJob, name: str, folder: Path) -> Fetched:
        """The run of a job, in ``folder``. ``name`` is what the user calls it."""
        if not self._store.has(run_name(job.key)):
            self._send(job)
            self._have_run(job, name)
        try:
            return self._fetch(job, name, folder)
        except BadPack as error:
            # Torn by a fault of the store: the next asking has it made again.
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
            texts = [(REQUEST, json.dumps(job.request.to_json())), (APART, json.dumps(apart))]
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
                for mark in self._store.names(f"begun/{job.key}"):  # a person may try again
                    self._store.drop(mark)
            raise NotRun(said)
        raise NotRun(f"no worker could run it: {said}")

    def _answer(self, job: PackedJob) -> Answer:
        """One handing over to a worker, and its word."""
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
            # Dask's own word for it, when a task was on several workers that ended: perhaps not its fault.
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
        """A scheduler without workers keeps jobs for whenever one comes; that is said, once each time."""
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
        """The engine is gone: all that waits for it is woken, for that would be without end."""
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
