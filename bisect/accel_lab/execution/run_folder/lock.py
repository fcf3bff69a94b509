"""Locks a run folder for one lab, and ends what a killed lab left there.

The kernel releases the lock when the lab's process ends in any way; no child inherits it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from accel_lab.core.errors import LabError
from accel_lab.core.machine.locks import Lock
from accel_lab.execution.processes import leftovers, process_table
from accel_lab.execution.processes.guardian import GUARDIAN

NAME = "lock.json"
_MOST_BYTES = 4096
_MOST_COMMAND = 160
#: Seconds to wait for a lock that another process holds only to check whether the folder is in use.
_GRACE_S = 0.3
#: Retries if the lock file that we opened was removed by another lab.
_TRIES = 20


#: Errors of network file systems without locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


class InUse(LabError):
    """Another process of the lab uses the folder (exit code 3)."""


@dataclass(kw_only=True)
class Held:
    """A locked folder. ``ended`` counts the processes that a killed lab had left."""

    folder: Path
    ended: int = 0


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that uses a folder, according to its lock file; None or empty for unknown values.

    ``since`` is in seconds since the epoch.
    """

    pid: int | None
    command: str
    since: float | None


_ours: dict[str, tuple[int, Held]] = {}
_guard = threading.Lock()


@contextmanager
def held(folder: Path) -> Iterator[Held]:
    """Holds the lock of a run folder; the same thread may take it again.

    Processes that a killed lab left are ended. Raises :class:`InUse` with the name of the process that holds
    it.
    """
    key, thread = os.path.realpath(folder), threading.get_ident()
    with _guard:
        owner, mine = _ours.get(key, (0, None))
        if mine is not None and owner != thread:
            raise InUse(f"{folder} is in use by another thread of this process: wait for it")
        lock = None
        if mine is None:
            lock = _take(folder)
            mine = Held(folder=folder)
            _ours[key] = (thread, mine)
    try:
        if lock is not None:
            before = str(_read(lock.path).get("run", ""))
            if before != GUARDIAN.run:
                mine.ended = leftovers.end_run(before)
            _write(lock.path)
        yield mine
    finally:
        if lock is not None:
            with _guard:
                del _ours[key]
            lock.path.unlink(missing_ok=True)
            lock.release()


def holder(folder: Path) -> str:
    """Returns a line that names the process using a folder, or an empty string; writes nothing there."""
    return _who(folder, _read(folder / NAME)) if _is_held(folder) else ""


def user_of(folder: Path) -> Holder | None:
    """Returns the process that uses a folder, or None; writes nothing there."""
    if not _is_held(folder):
        return None
    found = _read(folder / NAME)
    pid, command, since = (found.get(name) for name in ("pid", "command", "since"))
    return Holder(
        pid=pid if _is_process(pid) else None,
        command=_shown(command) if isinstance(command, str) else "",
        since=float(since) if type(since) is int and 0 < since < 2**40 else None,
    )


def _is_held(folder: Path) -> bool:
    """Whether another process holds the lock; the shared lock taken here does not disturb other checks."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # there is none, or it is not a file of the lab's
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS or _lives(_read(folder / NAME))
    finally:
        os.close(file)
    return False


def _take(folder: Path) -> Lock:
    """Takes the lock of a folder, and makes sure that the locked file is still the one in the folder."""
    if not folder.is_dir():
        raise LabError(f"there is no folder {folder}: it was removed, or never made")
    for _ in range(_TRIES):
        lock = Lock(folder / NAME)
        try:
            if not lock.take(wait_s=_GRACE_S):
                raise InUse(_who(folder, _read(folder / NAME)))
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise LabError(
                    f"cannot lock {folder} ({error.strerror}): it must be yours to write to"
                ) from None
            if _lives(found := _read(folder / NAME)):
                raise InUse(_who(folder, found)) from None
            return lock
        if lock.is_current():
            return lock
        lock.release()
    raise LabError(f"cannot lock {folder}: its {NAME} does not stay")


def _lives(found: dict[str, Any]) -> bool:
    """Whether the process in the lock file is running; used on file systems without locks."""
    pid = found.get("pid")
    process = process_table.read(pid) if _is_process(pid) else None
    named = (found.get("host"), found.get("start"))
    return process is not None and named == (platform.node(), process.start)


def _who(folder: Path, found: dict[str, Any]) -> str:
    pid, command = found.get("pid"), found.get("command")
    who = f"process {pid}" if _is_process(pid) else "another process"
    if isinstance(command, str):
        who += f" ({_shown(command)})"
    end = f"or end it with `kill {pid}`" if _is_process(pid) else "or end it"
    return f"{folder} is in use by {who}: wait for it, {end}"


def _is_process(pid: object) -> TypeGuard[int]:
    """Whether the number is a valid pid: a user may paste it, and `kill -1` would end all their processes."""
    return type(pid) is int and 0 < pid < 2**31


def _shown(command: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in command[:_MOST_COMMAND])


def _read(path: Path) -> dict[str, Any]:
    """Reads the lock file, which anybody may have written; the caller must check every value."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        found = json.loads(os.read(descriptor, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(descriptor)
    return found if isinstance(found, dict) else {}


def _write(path: Path) -> None:
    command = shlex.join(["accel-lab", *sys.argv[1:]])[:_MOST_COMMAND]
    own = process_table.read(os.getpid())
    row = {
        "pid": os.getpid(),
        "start": own.start if own is not None else 0,
        "host": platform.node(),
        "command": command,
        "run": GUARDIAN.run,
        "since": int(time.time()),
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # Private, because a process that has the run's id in its environment counts as one of the run's.
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, json.dumps(row).encode())
    finally:
        os.close(descriptor)
