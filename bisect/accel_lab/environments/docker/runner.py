"""Runs a command in its own container: the isolated counterpart of ``execution.process.run``.

Arguments and result are the same, so a prober does not know which of the two it uses. The command sees the
run's folder, the script's and the copied child, each at its own path. It has no network, no privileges and a
read-only system, and its limits end the whole container. Results travel in the run's files.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker.errors

import accel_lab
from accel_lab.core.errors import LabError
from accel_lab.core.machine.disk_usage import DiskUsage
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit

from .client import Connect, daemon_errors, one_line
from .confinement import creation, environment
from .leftovers import labels, remove_leftovers
from .mounts import User, Views, shown, user_for
from .outputs import Outputs, make_safe

QUICK_S = 0.02
SLOW_S = 0.25
STATS_S = 0.5
STACKS_S = 0.5
GRACE_S = 1.0
MARKER = "ACCEL_LAB_PROBE"  # the same variable as for a process on this machine
# Passed as source text, because it runs on the image's Python, which cannot import the lab.
_INSIDE = Path(accel_lab.__file__).with_name("child") / "container_init.py"
_OVER = ("exited", "dead", "removing")


class DockerRunner:
    """A callable with the arguments of ``execution.process.run``, for one image and one workspace.

    ``read`` are folders and files that every run may read (the copied child, the user's folder); the script's
    folder is derived from the command. ``keep`` is a folder for files made for the container. ``variables``
    names further environment variables to pass on.
    """

    def __init__(
        self,
        *,
        connect: Connect,
        image: str,
        python: str,
        read: Sequence[Path] = (),
        keep: Path,
        cpus: float = 0.0,
        variables: Sequence[str] = (),
    ) -> None:
        self._connect = connect
        self._image = image
        self._entry = [python, "-I", "-S", "-c", _INSIDE.read_text(encoding="utf-8")]
        self._read = tuple(read)
        self._variables = tuple(variables)
        self._lock = threading.Lock()
        client = connect()
        try:
            with daemon_errors("cannot ask the docker daemon about itself"):
                about = client.info()
            remove_leftovers(client)
        finally:
            client.close()
        self._security = tuple(about.get("SecurityOptions") or ())
        self._cpus = min(cpus or float("inf"), float(about.get("NCPU") or os.cpu_count() or 1))
        self.user: User = user_for(self._security)
        # Unique, because several runners may share a workspace.
        self._views = Views(keep / uuid.uuid4().hex[:8], self.user, python)

    def __call__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        limits: Limits,
        marker: str,
        stdin: Path | None = None,
        stop: threading.Event | None = None,
        written: Sequence[Path] = (),
    ) -> ProcessExit:
        """Runs a command to its end or to its limits; when this returns, its container is gone.

        ``written`` is not used: the run can only fill the folder of its outputs, which is measured.
        """
        if stop is not None and stop.is_set():
            return ProcessExit(limit="interrupted")
        with Outputs((stdout, stderr)) as outputs:
            try:
                return self._run(
                    {
                        "command": list(command),
                        "stdin": "" if stdin is None else str(stdin),
                        "stdout": str(stdout),
                        "stderr": str(stderr),
                        "token": f"accel-lab-{uuid.uuid4().hex}",
                        "held": True,
                    },
                    read=shown([*self._read, *([] if stdin is None else [stdin]), *_programs(command)]),
                    write=stdout.parent,
                    cwd=cwd,
                    env=env,
                    limits=limits,
                    marker=marker,
                    outputs=outputs,
                    stop=stop,
                )
            finally:
                make_safe(stdout.parent, cwd)
                outputs.restore()

    def _run(
        self,
        plan: Mapping[str, Any],
        *,
        read: Sequence[Path],
        write: Path,
        cwd: Path,
        env: Mapping[str, str],
        limits: Limits,
        marker: str,
        outputs: Outputs,
        stop: threading.Event | None,
    ) -> ProcessExit:
        with self._lock:  # the lock makes each view only once for all runs of this workspace
            mounts = self._views.mounts(read, write)
        client = self._connect()
        try:
            with daemon_errors(f"cannot create a container of {self._image}"):
                container = client.containers.create(
                    self._image,
                    entrypoint=self._entry,
                    command=[json.dumps(plan)],
                    working_dir=str(cwd),
                    environment={**environment(env, self._variables), **_paths(env, read), MARKER: marker},
                    **creation(
                        limits=limits,
                        mounts=mounts,
                        user=self.user.text,
                        cpus=self._cpus,
                        security=self._security,
                        labels=labels(marker, limits.timeout_s),
                    ),
                )
            lifeline: Any = None
            try:
                with daemon_errors(f"cannot start a container of {self._image}"):
                    # Its standard input: when this process ends in any way, the daemon closes it.
                    lifeline = client.api.attach_socket(container.id, params={"stdin": 1, "stream": 1})
                    container.start()
                watch = _Watch(client, container.id, limits, outputs, write)
                with daemon_errors("a container was lost"):
                    limit = watch.attend(stop)
                    if limit is not None:
                        watch.end(limit)
                    return self._answer(watch, str(plan["token"]), limit)
            finally:
                _remove(container)
                if lifeline is not None:
                    lifeline.close()
        finally:
            client.close()

    def _answer(self, watch: _Watch, token: str, limit: str | None) -> ProcessExit:
        state, seconds = watch.state(), watch.seconds
        log = watch.log() if limit is None else ""
        report = _report(log, token) or {}
        if report.get("error"):
            raise LabError(str(report["error"]) + f" (in a container of {self._image})")
        peak_mb = max(watch.peak_mb, float(report.get("peak_mb", 0.0)))
        code = report.get("exit_code")
        number = report.get("signal")
        if watch.cut():
            limit = limit or "output"
        if limit is None and (state.get("OOMKilled") or watch.was_full(number, peak_mb)):
            limit = "memory"
        if limit is None and not report:
            # The first program was killed from inside, or failed before it ran the command.
            status = int(state.get("ExitCode") or 0)
            if status != 128 + signal.SIGKILL:
                said = " ".join(log.split())[-200:] or state.get("Error") or "nothing"
                raise EnvironmentUnavailable(
                    f"{self._image}: the container ended with {status} before the command: {said}"
                )
            number = signal.SIGKILL.value
        return ProcessExit(
            exit_code=code if limit is None else None,
            signal=number if limit is None else None,
            limit=limit,
            seconds=float(report.get("seconds", seconds)),
            peak_mb=peak_mb,
        )


class _Watch:
    def __init__(self, client: Any, key: str, limits: Limits, outputs: Outputs, write: Path) -> None:
        self.peak_mb = 0.0
        self._client = client
        self._key = key
        self._limits = limits
        self._outputs = outputs
        self._disk = DiskUsage([write], limits.disk_mb)
        self._began = time.monotonic()
        self._has_stats = True
        self._processes = 0
        self._pids_limit = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def state(self) -> dict[str, Any]:
        """Returns the container's state as the daemon reports it."""
        found: dict[str, Any] = self._client.api.inspect_container(self._key)
        self._pids_limit = int((found.get("HostConfig") or {}).get("PidsLimit") or 0)
        return dict(found["State"])

    def attend(self, stop: threading.Event | None) -> str | None:
        """Waits until the container has ended (returns None) or must be ended (returns the limit)."""
        pause, stats_at = QUICK_S, STATS_S
        while self.state()["Status"] not in _OVER:
            if stop is not None and stop.is_set():
                return "interrupted"
            if self.seconds > self._limits.timeout_s:
                return "timeout"
            if self._outputs.size > self._limits.output_mb << 20:
                return "output"
            if self._disk.look() > self._limits.disk_mb:
                return "disk"
            if self.seconds >= stats_at:
                self._measure()
                stats_at = self.seconds + STATS_S
                if 0 < self._pids_limit <= self._processes + 1:
                    return "processes"  # the kernel refuses more processes, so the run cannot go on
            if stop is None:
                time.sleep(pause)
            else:
                stop.wait(pause)
            pause = min(pause * 1.5, SLOW_S)
        return None

    def end(self, limit: str) -> None:
        """Ends the container: INT, TERM, then KILL; at once if the exceeded limit would keep growing."""
        steps: list[tuple[str, float]] = [("SIGINT", GRACE_S), ("SIGTERM", GRACE_S)]
        if limit == "timeout":
            steps.insert(0, ("SIGUSR1", STACKS_S))  # the handler, if any, writes the Python stacks
        if limit in ("output", "processes", "memory", "disk"):
            steps = []
        for name, grace in [*steps, ("SIGKILL", 10 * GRACE_S)]:
            try:
                self._client.api.kill(self._key, name)
            except docker.errors.APIError:
                return  # it ended meanwhile
            until = time.monotonic() + grace
            while time.monotonic() < until:
                if self.state()["Status"] in _OVER:
                    return
                time.sleep(QUICK_S)

    def was_full(self, number: int | None, peak_mb: float) -> bool:
        """Whether an unexplained kill was the kernel's for memory, which the daemon may report too late."""
        return number == signal.SIGKILL and peak_mb > 0.9 * self._limits.memory_mb

    def cut(self) -> bool:
        """Cuts output files to their limit; returns whether they exceeded it."""
        return self._outputs.cut(self._limits.output_mb << 20)

    def log(self) -> str:
        """Returns the end of the container's own log."""
        data: bytes = self._client.api.logs(self._key, stdout=True, stderr=True, tail=50)
        return data.decode("utf-8", "replace")

    def _measure(self) -> None:
        if not self._has_stats:
            return
        try:
            stats = self._client.api.stats(self._key, stream=False, one_shot=True)
        except (docker.errors.DockerException, OSError, ValueError):
            self._has_stats = False  # an old daemon; the kernel still enforces the limits
            return
        memory = stats.get("memory_stats") or {}
        detail = memory.get("stats") or {}
        cached = detail.get("total_inactive_file") or detail.get("inactive_file") or 0
        self.peak_mb = max(self.peak_mb, (int(memory.get("usage") or 0) - int(cached)) / 2**20)
        self._processes = int((stats.get("pids_stats") or {}).get("current") or 0)


def _report(log: str, token: str) -> dict[str, Any] | None:
    for line in reversed(log.splitlines()):
        if line.startswith(token):
            try:
                found: dict[str, Any] = json.loads(line[len(token) :])
            except ValueError:
                return None
            return found
    return None


def _paths(env: Mapping[str, str], read: Sequence[Path]) -> dict[str, str]:
    """Returns PYTHONPATH, reduced to what is visible in the container."""
    names = [name for name in env.get("PYTHONPATH", "").split(os.pathsep) if name]
    seen = [name for name in names if any(place in (Path(name), *Path(name).parents) for place in read)]
    return {"PYTHONPATH": os.pathsep.join(seen)} if seen else {}


def _programs(command: Sequence[str]) -> list[Path]:
    """Returns the files in a command, and the program of the job in it."""
    found = []
    for word in command[1:]:
        path = Path(word)
        if not path.is_absolute() or not path.is_file():
            continue
        if path.name != "job.json":
            found.append(path)
            continue
        try:
            program = json.loads(path.read_text(encoding="utf-8")).get("program") or {}
        except (OSError, ValueError):
            continue
        if program.get("path"):
            found.append(Path(program["path"]))
    return found


def _remove(container: Any) -> None:
    """Removes a container with its volumes; raises LabError if that fails twice."""
    for again in (True, False):
        try:
            container.remove(force=True, v=True)
            return
        except docker.errors.NotFound:
            return
        except (docker.errors.APIError, OSError) as error:
            if isinstance(error, docker.errors.APIError) and "already in progress" in str(error):
                return
            if not again:
                raise LabError(f"cannot remove container {container.short_id}: {one_line(error)}") from error
            time.sleep(GRACE_S)
