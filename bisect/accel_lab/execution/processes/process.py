"""The only module that starts processes: each in its own session, within limits, none left behind."""

from __future__ import annotations

import atexit
import logging
import os
import select
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from accel_lab.core.errors import LabError, Unanswered
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.execution.run_folder.copies import remove

from .guardian import GUARDIAN, RUN
from .process_table import HAVE_PROC, MARKER, REGISTER
from .process_table import read as read_process
from .watch import Watch, sweep

LOG = logging.getLogger("accel_lab.process")

Stream = IO[bytes] | int  # as Popen takes them

atexit.register(GUARDIAN.dismiss)

#: Reasons why no process may be started now; the last one is reported.
_forbidden: list[str] = []

__all__ = [
    "MARKER",
    "ProcessExit",
    "Watch",
    "last_line",
    "nothing_starts",
    "run",
    "run_in_terminal",
    "spawn",
    "start_apart",
    "sweep",
]


@contextmanager
def nothing_starts(why: str) -> Iterator[None]:
    """Makes every start of a process, in any thread, raise :class:`Unanswered` inside the block."""
    _forbidden.append(why)
    try:
        yield
    finally:
        _forbidden.remove(why)


def _may_start() -> None:
    if _forbidden:
        raise Unanswered(_forbidden[-1])


def run(
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
    """Runs a command to its end or to its limits; when this returns, none of its processes is left.

    ``limits.disk_mb`` limits the size of the folders ``written``. Setting ``stop`` in another thread ends the
    command, and so does an exception here, such as Ctrl-C.
    """
    _may_start()
    if stop is not None and stop.is_set():
        return ProcessExit(limit="interrupted")
    with ExitStack() as files:
        try:
            # Append mode: the child may open the same file again, and both streams may be one file.
            out = files.enter_context(_output(stdout))
            err = out if stderr == stdout else files.enter_context(_output(stderr))
            source = files.enter_context(open(stdin or os.devnull, "rb"))
        except OSError as error:
            raise LabError(f"cannot open {error.filename}: {error.strerror}") from error
        outputs = [out.fileno()] if stderr == stdout else [out.fileno(), err.fileno()]
        child: subprocess.Popen[bytes] | None = None
        watch: Watch | None = None
        began = time.monotonic()
        try:
            env = {**env, MARKER: marker}
            LOG.debug("start in %s: %s", cwd, shlex.join(command))
            child = spawn(command, cwd=cwd, env=env, stdin=source, stdout=out, stderr=err)
            watch = Watch(child.pid, marker=marker, limits=limits, outputs=outputs, written=written)
            limit = _attend(child, watch, stop)
            seconds = time.monotonic() - began
            watch.stop()
            code = child.wait()
        except LabError:
            raise
        except BaseException:
            try:
                if watch is not None:
                    watch.stop()
            finally:  # a second Ctrl-C ends up here and kills at once
                sweep(marker)
                if child is not None:
                    child.wait()
            raise
        limit = limit or watch.passed
        if watch.output_mb() > limits.output_mb:
            limit = limit or "output"
            for descriptor in outputs:
                size = min(os.stat(descriptor).st_size, limits.output_mb * 2**20)
                os.truncate(descriptor, size)
    return ProcessExit(
        exit_code=code if limit is None and code >= 0 else None,
        signal=-code if limit is None and code < 0 else None,
        limit=limit,
        seconds=seconds,
        peak_mb=watch.peak_mb,
    )


def _output(path: Path) -> BinaryIO:
    """Opens a new file for appending; replaces whatever an earlier program left there."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            remove(path)
        else:
            path.unlink()
    except FileNotFoundError:
        pass
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o644), "ab")


def spawn(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: Stream = subprocess.PIPE,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.DEVNULL,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a long-lived process in its own session, with pipes and without limits.

    The caller waits for it. ``Watch(process.pid, ...).stop()`` ends it with its whole tree; if the lab is
    killed, the guardian does.
    """
    _may_start()
    _expect_children()
    try:
        # Held until the child is registered, because an unregistered child would count as an orphan.
        with REGISTER.lock:
            GUARDIAN.watch(_start_guardian)
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env={**env, RUN: GUARDIAN.run},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=pass_fds,
            )
            REGISTER.add(child)
        if (started := read_process(child.pid)) is not None:
            GUARDIAN.tell([started])
    except (OSError, ValueError) as error:
        if not cwd.is_dir():
            raise LabError(f"cannot start {command[0]!r}: the working directory {cwd} is missing") from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LabError(f"cannot start {command[0]!r}: {reason}") from error
    return child


def run_in_terminal(command: Sequence[str], *, to_stderr: bool = False) -> int | None:
    """Runs a program on our own terminal, folder and environment, without limits.

    Returns its exit code, or None if a signal ended it. Ctrl-C reaches the program directly, and we wait for
    its end. With ``to_stderr`` its output goes to our standard error.
    """
    _may_start()
    try:
        child = subprocess.Popen(list(command), stdout=sys.stderr if to_stderr else None)
    except OSError as error:
        raise LabError(f"cannot start {command[0]!r}: {error.strerror}") from error
    while True:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            continue
        return code if code >= 0 else None


def start_apart(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a process in its own session that outlives the lab.

    It has no guardian. It is registered, so that no watch takes it for a leftover of a probe.
    """
    _may_start()
    try:
        with REGISTER.lock:
            child = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            REGISTER.add(child)
    except OSError as error:
        raise LabError(f"cannot start {command[0]!r}: {error.strerror}") from error
    return child


def last_line(log: Path) -> str:
    """Returns the last line of a log, cut to 300 characters, for an error message."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:300] if lines else f"no message (see {log})"


def _start_guardian(command: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
    """Starts the guardian in its own session, where a terminal's signals do not reach it."""
    guardian = subprocess.Popen(
        list(command),
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    REGISTER.add(guardian)
    return guardian


def _expect_children() -> None:
    """Becomes the subreaper of orphans, and makes sure that exit statuses arrive.

    If our parent ignored SIGCHLD, the kernel would discard every exit status, and each failure would look
    like exit code 0.
    """
    REGISTER.adopt_orphans()
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        except ValueError as error:  # only the main thread may set it
            raise LabError("SIGCHLD is ignored: start the lab from a program that does not do so") from error


def _attend(child: subprocess.Popen[bytes], watch: Watch, stop: threading.Event | None) -> str | None:
    """Waits until the child has ended (returns None) or must be ended (returns the limit); does not reap it.

    Until the exit status is fetched, neither the pid nor its session's number can be reused.
    """
    with ExitStack() as resources:
        exits: select.poll | None = None
        if HAVE_PROC and hasattr(os, "pidfd_open"):
            try:
                pidfd = os.pidfd_open(child.pid)
            except OSError:
                pass  # an old kernel: poll at short intervals instead
            else:
                resources.callback(os.close, pidfd)
                exits = select.poll()
                exits.register(pidfd, select.POLLIN)
        while True:
            limit = watch.poll()
            if limit is not None:
                return limit
            if stop is not None and stop.is_set():
                return "interrupted"
            if exits is not None:
                if exits.poll(watch.pause * 1000):
                    return None
            elif _has_ended(child):
                return None
            else:
                time.sleep(watch.pause)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    if HAVE_PROC and hasattr(os, "waitid"):
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return child.poll() is not None
