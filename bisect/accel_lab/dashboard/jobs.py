"""The queue of bisections started from the page: one runs at a time, and each can be stopped."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.execution.run_folder.lock import NAME as LOCK

from .bisection import Command, run
from .journal_tail import JournalTail
from .live import State
from .progress_lines import Line, ProgressLines

MOST_WAITING, MOST_KEPT = 8, 50
_OUT_BYTES = 256 << 10
#: How a bisection ended, by exit code (DESIGN section 10).
_ENDS = {
    0: "done: the script does not fail",
    1: "done: the failure was reproduced",
    2: "refused: see the last line",
    3: "the lab could not do it: see the last line",
    125: "done: inconclusive",
    130: "stopped; what was found until then is kept",
}


class Full(Exception):
    """Too many bisections are waiting to add another one."""


@dataclass(kw_only=True)
class Job:
    """One bisection. ``words`` follow ``accel-lab``; ``run`` is the run's folder once it is known.

    ``started`` and ``ended`` are seconds of ``time.monotonic``.
    """

    words: tuple[str, ...]
    script: Path
    folder: Path
    identity: str = field(default_factory=lambda: secrets.token_hex(6))
    state: State = State.WAITING
    exit_code: int | None = None
    said: str = ""
    run: Path | None = None
    pid: int = 0
    started: float | None = None
    ended: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    _progress: ProgressLines | None = None
    _journal: JournalTail | None = None

    @property
    def out(self) -> Path:
        """File with its standard output, the result."""
        return self.folder / f"{self.identity}.out.txt"

    @property
    def err(self) -> Path:
        """File with its standard error, the progress."""
        return self.folder / f"{self.identity}.err.txt"

    @property
    def seconds(self) -> float:
        """Seconds that it has run so far."""
        if self.started is None:
            return 0.0
        return (self.ended if self.ended is not None else time.monotonic()) - self.started

    def lines(self) -> list[Line]:
        """Returns its progress so far."""
        over = self.state is State.OVER  # read before the file: no lines are added once it is over
        if self._progress is None:
            self._progress = ProgressLines(self.err)
        return self._progress.read(whole=over)

    def running(self) -> list[str]:
        """Returns the running probes."""
        if self.run is None or self.state is State.OVER:
            return []
        if self._journal is None:
            self._journal = JournalTail(self.run)
        return self._journal.running()

    def result(self) -> str:
        """Returns the text that it printed at its end."""
        with suppress(LabError, OSError):
            return ChildFiles(self.folder).head(self.out.name, _OUT_BYTES) or ""
        return ""


class Jobs:
    """Runs the jobs one after another in its own thread; ``folder`` is for their output.

    ``command`` turns a job's words into a full command. ``new_runs`` is the folder of new runs.
    """

    def __init__(self, *, folder: Path, new_runs: Path, cwd: Path, command: Command) -> None:
        self._folder, self._new_runs, self._cwd, self._command = folder, new_runs, cwd, command
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, words: Sequence[str], script: Path) -> Job:
        """Appends a bisection to the queue; raises :class:`Full`."""
        with self._changed:
            waiting = sum(job.state is State.WAITING for job in self._jobs.values())
            if waiting >= MOST_WAITING or self._closed:
                raise Full(f"{waiting} bisections wait already: stop one, or come back later")
            job = Job(words=tuple(words), script=script, folder=self._folder)
            self._jobs[job.identity] = job
            over = [one for one in self._jobs.values() if one.state is State.OVER]
            for old in over[: max(0, len(self._jobs) - MOST_KEPT)]:
                del self._jobs[old.identity]
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="accel-lab-dashboard")
                self._thread.start()
            self._changed.notify_all()
            return job

    def get(self, identity: str) -> Job | None:
        """Returns the job of that name, or None if it is not kept any more."""
        return self._jobs.get(identity)

    def all(self) -> list[Job]:
        """Returns the jobs, newest first."""
        with self._changed:
            return list(self._jobs.values())[::-1]

    def stop(self, job: Job) -> None:
        """Asks a job to stop; a waiting one leaves the queue."""
        with self._changed:
            job.stop.set()
            if job.state is State.WAITING:
                job.state, job.said = State.OVER, "taken out of the queue"
            elif job.state is State.RUNNING:
                job.state = State.STOPPING
            self._changed.notify_all()

    @property
    def busy(self) -> bool:
        return any(job.state in (State.RUNNING, State.STOPPING) for job in self.all())

    def close(self) -> None:
        """Stops all jobs, and waits until the last process has ended."""
        with self._changed:
            self._closed = True
        for job in self.all():
            self.stop(job)
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._next() is not None)
                job = self._next()
                if self._closed or job is None:
                    return
                job.state, job.started = State.RUNNING, time.monotonic()
            self._run(job)

    def _next(self) -> Job | None:
        return next((job for job in self._jobs.values() if job.state is State.WAITING), None)

    def _run(self, job: Job) -> None:
        def started(pid: int) -> None:
            job.pid = pid

        def look() -> None:
            if job.run is None:
                job.run = _run_of(job.pid, self._new_runs)

        said, code = "", None
        try:
            code = run(
                self._command(job.words),
                cwd=self._cwd,
                out=job.out,
                err=job.err,
                stop=job.stop,
                started=started,
                look=look,
            )
            said = _ENDS.get(code, f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}")
        except (LabError, OSError) as error:
            said = f"the lab could not do it: {error}"
        with self._changed:
            job.exit_code, job.said, job.ended = code, said, time.monotonic()
            job.state = State.OVER


def _run_of(pid: int, base: Path) -> Path | None:
    """Returns the run folder whose lock names the process, or None."""
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and os.path.lexists(os.path.join(entry.path, LOCK)):
                with suppress(LabError, OSError):
                    found = ChildFiles(entry.path).json(LOCK, {"pid?": int}, most=4096)
                    if found is not None and found.get("pid") == pid:
                        return Path(entry.path)
    return None
