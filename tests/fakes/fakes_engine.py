"""An engine of threads whose workers can end, and a bisection without torch that does as its script says."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from accel_lab.engine.lab_command import LabRun

#: The file that notes which script was bisected by which process; workers inherit it.
LOG = "LAB_TEST_BISECTIONS"

_here = threading.local()


class KilledWorker(Exception):
    """As Dask calls it."""


class WorkerEnded(BaseException):
    """Stands for the end of a worker's process."""


def worker_here() -> str:
    """The fake worker that the thread is on."""
    return getattr(_here, "name", "w0")


def bisections() -> list[str]:
    """The scripts that were bisected to the end, in their order."""
    return [line.split()[1] for line in _lines() if line.startswith("ended")]


def _lines() -> list[str]:
    path = Path(os.environ[LOG])
    return path.read_text().splitlines() if path.exists() else []


def _note(word: str, script: Path) -> None:
    with Path(os.environ[LOG]).open("a") as stream:
        stream.write(f"{word} {script.name} {os.getpid()}\n")


def fake_bisect(words: list[str], *, cwd: Path, folder: Path) -> LabRun:
    """Stands for ``accel-lab bisect``: the script's first line is the stage, then what befalls the worker."""
    script = Path(words[-1])
    stage, *happens = script.read_text().splitlines()[0].split()[1:]
    _note("begun", script)
    _befall(happens, script)
    run = folder / "runs" / f"{script.name}-1"
    run.mkdir(parents=True)
    (run / "lib").mkdir()
    (run / "lib" / "child.py").write_text("pass\n")
    (run / "request.json").write_text("{}")
    (run / "graph.py").write_text(f"# of {script.name}\nf({stage!r})\n")
    (run / "repro.py").write_text("1\n")
    found = {"stage": stage, "confidence": "proven", "component": {"kind": "op", "name": "aten.add"}}
    report = {
        "verdict": "passes" if stage == "fine" else "fails",
        "culprit": {} if stage == "fine" else found,
        "baseline": {"signature": {"kind": "exception", "type": "ValueError", "message": "boom"}},
        "repro": {"script": str(run / "repro.py"), "graph": str(run / "graph.py"), "lines_after": 1},
        "bundle": str(run / "bundle.zip"),
    }
    (run / "report.json").write_text(json.dumps(report))
    _note("ended", script)
    return LabRun(exit_code=0 if stage == "fine" else 1, said="(exit code 1)")


def _befall(happens: list[str], script: Path) -> None:
    first = sum(line.split()[:2] == ["begun", script.name] for line in _lines()) == 1
    if "slow" in happens:
        time.sleep(1.0)
    if "kill" in happens or ("kill-once" in happens and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if "end" in happens or ("end-once" in happens and first):
        raise WorkerEnded
    if "full" in happens and worker_here() == "w0":
        raise OSError(errno.ENOSPC, "No space left on device", "x")


class FakeEngine:
    """Workers ``w0`` to ``w3``, one thread each. ``after``: so many calls, and the scheduler is gone."""

    name = "dask:fake"
    workers = 4

    def __init__(self, after: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._left = after
        self.closed = False

    def submit(
        self, function: Callable[[str], str], text: str, *, key: str, avoid: Sequence[str]
    ) -> Future[str]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                gone: Future[str] = Future()
                gone.cancel()
                gone.set_running_or_notify_cancel()
                return gone
        return self._pool.submit(self._call, function, text, list(avoid))

    def _call(self, function: Callable[[str], str], text: str, avoid: list[str]) -> str:
        names = [f"w{n}" for n in range(4) if f"w{n}" not in avoid] or ["w0"]
        for attempt in range(4):  # a task that was lost is begun on another worker, as Dask does
            _here.name = names[attempt % len(names)]
            try:
                return function(text)
            except WorkerEnded:
                continue
        raise KilledWorker(text)

    def close(self) -> None:
        self.closed = True
        self._pool.shutdown()
