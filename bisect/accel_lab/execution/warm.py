"""The lab's side of the warm server: starts it, sends it jobs, and watches its forks."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits

from .lending.clean_server import START_TIMEOUT_S
from .lending.server_client import Servers, borrow
from .processes.process import MARKER, ProcessExit, Watch, last_line, spawn, sweep
from .run_folder.compiler_checks import CompilerChecks
from .run_folder.workspace import Workspace

LOG = logging.getLogger("accel_lab.prober")


class ServerProcess(Protocol):
    """The process of a warm server: started for the run, or lent to it."""

    @property
    def stdin(self) -> IO[bytes]: ...
    @property
    def stdout(self) -> IO[bytes]: ...
    def end(self) -> None:
        """Ends the process and all its forks."""


#: Starts the process, or raises :class:`LabError`.
Start = Callable[[], ServerProcess]


class WarmServer:
    """A process of the probed interpreter that has imported torch and forks a child for each job.

    Raises :class:`LabError` if it cannot be started or died; the prober then continues cold.
    """

    def __init__(
        self, *starts: Start, log: Path, marker: str, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        """Tries ``starts`` in order until one's process becomes ready.

        ``on_ready`` is called once, before the first job is accepted.
        """
        self._marker = marker
        self._on_ready = on_ready
        self._log = log
        self._messages: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, int] = {}
        self._ready: dict[str, Any] | None = None
        self._gone = False
        self._closed = False
        self._changed = threading.Condition()
        self._write_lock = threading.Lock()
        # With a single way to start, an error is raised here at once.
        self._process = starts[0]() if len(starts) == 1 else None
        self._reader = threading.Thread(
            target=self._serve, args=(starts,), daemon=True, name="accel-lab-warm"
        )
        self._reader.start()

    @property
    def ready(self) -> bool:
        """Whether its imports are done and it is still running."""
        return self._ready is not None and not self._gone

    @property
    def facts(self) -> dict[str, Any]:
        """What it reported when it became ready: torch, python, seconds."""
        return self._ready or {}

    def wait_ready(self) -> None:
        """Blocks until the imports are done; raises :class:`LabError` if the server does not start."""
        deadline = time.monotonic() + START_TIMEOUT_S
        with self._changed:
            while self._ready is None and not self._gone:
                if not self._changed.wait(timeout=max(0.0, deadline - time.monotonic())):
                    break
        if not self.ready:
            raise LabError(f"the warm server did not start: {last_line(self._log)}")

    def run(
        self,
        job: Mapping[str, Any],
        *,
        outputs: tuple[Path, Path],
        limits: Limits,
        marker: str,
        stop: threading.Event | None = None,
        written: Sequence[Path] = (),
    ) -> ProcessExit:
        """Forks a child for ``job`` and watches it to its end."""
        self.wait_ready()
        identity = str(job["id"])
        started = time.monotonic()
        self._send(job)
        pid = self._wait_started(identity)
        watch = Watch(pid, marker=marker, limits=limits, outputs=outputs, written=written)
        pause, limit = 0.005, None
        while identity not in self._ended and limit is None:
            with self._changed:
                self._changed.wait_for(lambda: identity in self._ended or self._gone, timeout=pause)
            if self._gone:
                break
            pause = min(0.1, pause * 1.5)
            if identity in self._ended:
                break
            limit = watch.poll()
            if limit is None and time.monotonic() - started > limits.timeout_s:
                limit = "timeout"
            if stop is not None and stop.is_set():
                limit = "interrupted"
        if limit is not None:
            watch.stop(limit)
        else:
            watch.poll()
            watch.clear()
        sweep(marker)
        status = self._ended.pop(identity, None)
        if status is None and limit is None:
            raise LabError(f"the warm server died: {last_line(self._log)}")
        return _ended(status, limit, time.monotonic() - started, watch.peak_mb)

    def close(self) -> None:
        """Ends the server and all its forks."""
        with self._changed:
            self._gone = self._closed = True
            process = self._process
        if process is not None:
            process.end()
        sweep(self._marker)

    def _send(self, job: Mapping[str, Any]) -> None:
        line = (json.dumps(job) + "\n").encode()
        try:
            with self._write_lock:
                assert self._process is not None
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except OSError as error:
            raise LabError(f"the warm server is gone: {last_line(self._log)}") from error

    def _wait_started(self, identity: str) -> int:
        with self._changed:
            if not self._changed.wait_for(lambda: identity in self._messages or self._gone, timeout=60.0):
                raise LabError("the warm server does not answer")
        if identity not in self._messages:
            raise LabError(f"the warm server died: {last_line(self._log)}")
        return int(self._messages.pop(identity)["pid"])

    def _serve(self, starts: Sequence[Start]) -> None:
        """Starts the server and reads its messages until it ends."""
        for start in starts:
            try:
                process = self._process or start()
            except LabError as error:
                LOG.info("%s", error)
                continue
            with self._changed:
                self._process, closed = process, self._closed
            if closed:
                process.end()
                break
            self._read(process.stdout)
            if self._ready is not None or self._closed:
                break
            LOG.info("a server that was lent did not become ready")
            process.end()
            self._process = None
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            event = message.get("event")
            if event == "ready":
                self._on_ready()
            with self._changed:
                if event == "ready":
                    self._ready = message
                elif event == "started":
                    self._messages[message["id"]] = message
                elif event == "ended":
                    self._ended[message["id"]] = int(message["status"])
                self._changed.notify_all()


class Own:
    """A server that is started for this run alone."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        pipe = subprocess.PIPE
        with log.open("ab") as stream:
            self._child = spawn(command, cwd=log.parent, env=env, stdin=pipe, stdout=pipe, stderr=stream)

    @property
    def stdin(self) -> IO[bytes]:
        assert self._child.stdin is not None
        return self._child.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._child.stdout is not None
        return self._child.stdout

    def end(self) -> None:
        try:
            self.stdin.close()
            self._child.wait(timeout=2.0)
        except (OSError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()


def start_server(
    python: str,
    workspace: Workspace,
    base: Mapping[str, str],
    checks: CompilerChecks,
    servers: Servers | None = None,
) -> WarmServer:
    """Starts a warm server with its own caches in the run's folder, and keeps its compiler checks.

    With ``servers`` it is a fork of a clean one there; if that is not possible, it is started normally.
    """
    place = workspace.root / "server"
    cache = place / "cache"
    (cache / "triton").mkdir(parents=True, exist_ok=True)
    checks.lend(cache)
    env = {
        **base,
        "PYTHONHASHSEED": base.get("PYTHONHASHSEED", "0"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "TRITON_CACHE_DIR": str(cache / "triton"),
    }
    log, marker = place / "log.txt", f"server-{uuid.uuid4().hex}"
    log.write_bytes(b"")
    made: list[Path] = []

    def own() -> ServerProcess:
        command = [python, str(workspace.library / "__main__.py"), "serve"]
        return Own(command, env={**env, MARKER: marker}, log=log)

    def lent() -> ServerProcess:
        assert servers is not None
        borrowed, fresh = borrow(
            servers,
            python=python,
            library=workspace.library.parent,
            environment=env,
            marker=marker,
            log=log,
            fill_cache=checks.lend,
        )
        LOG.info("the warm server is a fork of one that is kept (process %d)", borrowed.process.pid)
        made.extend([fresh / "cache"] if fresh is not None else [])
        return borrowed

    def keep() -> None:
        for folder in made or [cache]:
            checks.keep(folder)

    return WarmServer(*([lent] if servers is not None else []), own, log=log, marker=marker, on_ready=keep)


def build_compiler_checks(python: str, workspace: Workspace, environment: Mapping[str, str]) -> None:
    """Builds the compiler's test programs for cold runs, if none are kept.

    Parallel cold runs would each build their own, for tens of CPU seconds. Here a server builds them once,
    without user code, and ends. It works only for an interpreter of this machine.
    """
    checks = CompilerChecks(python)
    if checks.kept or not hasattr(os, "fork"):
        return
    try:
        server = start_server(python, workspace, environment, checks)
        try:
            server.wait_ready()
        finally:
            server.close()
    except LabError as error:
        LOG.info("no test programs of the compiler are kept: %s", error)


def _ended(status: int | None, limit: str | None, seconds: float, peak_mb: float) -> ProcessExit:
    code = number = None
    if limit is None and status is not None:
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
        else:
            code = os.WEXITSTATUS(status)
    return ProcessExit(exit_code=code, signal=number, limit=limit, seconds=seconds, peak_mb=peak_mb)
