"""The process table: reads what the kernel shows about processes, and sends signals that hit the right one.

All code that needs ``/proc`` is here. Without it (macOS) ``read`` and ``table`` find nothing, ``HAVE_PROC``
is false, and ``watch`` falls back to the process group.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

MARKER = "ACCEL_LAB_PROBE"
HAVE_PROC = sys.platform == "linux" and Path("/proc/self/stat").exists()
_PAGE_MB = resource.getpagesize() / 2**20
_PR_SET_CHILD_SUBREAPER = 36
_DEAD = "ZXx"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One entry of the process table. ``start`` distinguishes two processes that had the same pid."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    threads: int
    start: int
    rss_mb: float

    @property
    def alive(self) -> bool:
        """Whether it can still run: false for a zombie, unless only its first thread has ended."""
        return self.state not in _DEAD or self.threads > 1

    @property
    def key(self) -> tuple[int, int]:
        """Identifies this process even if its pid is reused."""
        return self.pid, self.start


class Started(Protocol):
    """The part of ``Popen`` that the register needs."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def _bytes_of(path: str) -> bytes:
    """Reads a file of /proc; empty if the process is gone or not ours to inspect."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read() or b""
    except OSError:
        return b""


def read(pid: int) -> Process | None:
    """Returns the process with this pid, or None."""
    stat = _bytes_of(f"/proc/{pid}/stat")
    # The name is in parentheses and may itself contain spaces and parentheses: split after the last one.
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 22:
        return None
    return Process(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        threads=int(fields[17]),
        start=int(fields[19]),
        rss_mb=int(fields[21]) * _PAGE_MB,
    )


def table(skip: Collection[int] = ()) -> Iterator[Process]:
    """Yields all processes, with zombies, except those in ``skip``, which are not read at all."""
    try:
        names = os.listdir("/proc") if HAVE_PROC else []
    except OSError:
        names = []
    for name in names:
        if name.isdigit() and int(name) not in skip:
            process = read(int(name))
            if process is not None:
                yield process


def is_marked(pid: int, marker: str, variable: str = MARKER) -> bool:
    """Whether the process was started with ``variable=marker`` in its environment."""
    entry = f"\0{variable}={marker}\0".encode()
    return entry in b"\0" + _bytes_of(f"/proc/{pid}/environ")


def proportional_mb(pid: int) -> float | None:
    """Returns the process's memory in MB with shared pages divided among their sharers; None if unknown."""
    for line in _bytes_of(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) / 1024
    return None


def catches(pid: int, number: int) -> bool:
    """Whether the process has its own handler for this signal."""
    for line in _bytes_of(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def send(process: Process, number: int) -> None:
    """Sends a signal to exactly this process; a pidfd protects a process that got the same pid meanwhile."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        pidfd = -1  # Linux before 5.3, or the process is gone
    try:
        now = read(process.pid)
        if now is None or now.start != process.start:
            return
        if pidfd >= 0:
            signal.pidfd_send_signal(pidfd, number)
        else:
            os.kill(process.pid, number)
    except OSError:
        pass  # gone, or of another user: the caller notices when it waits
    finally:
        if pidfd >= 0:
            os.close(pidfd)


def self_and_ancestors() -> set[int]:
    """Returns this process and its ancestors, which no watch may ever signal."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        process = read(pid)
        pid = process.parent if process else 0
    return found


def bare(pid: int) -> Process:
    """Returns a stand-in with only a pid, for systems without a process table."""
    return Process(pid=pid, state="R", parent=0, group=pid, session=pid, threads=1, start=0, rss_mb=0.0)


def own_mb(process: Process) -> float:
    """Returns the process's own memory in MB: proportional if known, else all resident pages.

    A process that has ended since the table was read counts 0, because its shared pages may still be counted
    in other processes.
    """
    share = proportional_mb(process.pid)
    if share is not None:
        return share
    now = read(process.pid)
    return process.rss_mb if now is not None and now.key == process.key and now.alive else 0.0


def confine(pid: int, *, file_mb: int) -> None:
    """Limits the size of files that a process can write, and turns off its core dumps, from outside.

    The parent does this after the start, because ``preexec_fn`` may deadlock in a program with threads.
    """
    if sys.platform != "linux":
        return
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        size = file_mb * 2**20
        if hard != resource.RLIM_INFINITY:
            size = min(size, hard)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
        # core(5): a limit of 0 does not stop a dump that is piped to a program, but a limit of 1 stops both.
        _, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
        size = 0 if hard == 0 else 1
        resource.prlimit(pid, resource.RLIMIT_CORE, (size, size))
    except OSError:
        pass  # ended meanwhile, or of another user


class Register:
    """The children that this program started itself; any other child is an orphan of one of them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held during a start, so that no child is half registered
        self._own: dict[int, Started] = {}
        self._adopts: tuple[int, bool] = (0, False)

    def adopt_orphans(self) -> bool:
        """Becomes the parent of every descendant that loses its own; False if the system cannot do that."""
        with self.lock:
            if self._adopts[0] != os.getpid():  # the setting belongs to one process and is not inherited
                done = False
                if HAVE_PROC:
                    libc = ctypes.CDLL(None, use_errno=True)
                    done = libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0) == 0
                self._adopts = (os.getpid(), done)
            return self._adopts[1]

    def add(self, child: Started) -> None:
        """Registers a child that was just started; the caller must hold the lock since before the start."""
        self._own = {pid: known for pid, known in self._own.items() if known.returncode is None}
        self._own[child.pid] = child

    def owns(self, pid: int) -> bool:
        """Whether we started this process and have not yet fetched its exit status."""
        with self.lock:
            child = self._own.get(pid)
            return child is not None and child.returncode is None

    def poll(self, pid: int) -> None:
        """Fetches the exit status of a child of ours if it has ended."""
        child = self._own.get(pid)
        if child is not None:
            child.poll()

    def is_orphan(self, process: Process) -> bool:
        """Whether we got the process because its parent died; our other children share our session."""
        return (
            process.parent == os.getpid()
            and self._adopts == (os.getpid(), True)
            and process.session != os.getsid(0)
            and not self.owns(process.pid)
        )

    def orphans(self) -> list[int]:
        """Returns the pids of all our orphans, dead ones too; much faster than reading the table."""
        if self._adopts != (os.getpid(), True):
            return []
        lists = [_bytes_of(f"/proc/self/task/{thread}/children") for thread in os.listdir("/proc/self/task")]
        if not any(lists) and not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            return [p.pid for p in table() if self.is_orphan(p)]  # a kernel without these lists
        found = []
        for pid in (int(word) for words in lists for word in words.split()):
            try:
                if os.getsid(pid) != os.getsid(0) and not self.owns(pid):
                    found.append(pid)
            except OSError:
                pass  # another thread has reaped it
        return found

    def reap(self, *, strike: bool = False, spare: Collection[int] = ()) -> int:
        """Fetches the exit statuses of dead orphans, never that of a child somebody waits for; returns the
        number.

        With ``strike`` living orphans that are not in ``spare`` are killed, the youngest first.
        """
        reaped = 0
        with self.lock:  # nobody else reaps meanwhile, so these pids cannot be reused
            for pid in reversed(self.orphans()):
                try:
                    if strike and pid not in spare:
                        os.kill(pid, signal.SIGKILL)
                    reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
                except OSError:
                    pass  # of another user, or gone
        return reaped


REGISTER = Register()


def group_lives(pid: int) -> bool:
    REGISTER.poll(pid)
    try:
        if pid > 0:  # 0 would mean our own group
            os.killpg(pid, 0)
    except OSError:
        return False
    return pid > 0
