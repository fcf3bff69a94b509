"""One lock for each run folder: who works in it, and the end of what one that was killed has left.

The kernel gives the lock up when the lab's process ends, however it ends; no child inherits it.
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
#: Who looks whether a folder is in use holds its lock for a moment: so long is it waited for, in seconds.
_GRACE_S = 0.3
#: Another lab may have removed the file that we opened, with the folder or at its end; so often is it tried.
_TRIES = 20


#: What file systems of other machines answer that know no locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


class InUse(LabError):
    """Another process of the lab works in the folder (exit code 3)."""


@dataclass(kw_only=True)
class Held:
    """A folder that is ours. ``ended`` counts the processes that a killed lab had left."""

    folder: Path
    ended: int = 0


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who works in a folder, as its lock says: None and empty for what it does not say.

    ``since`` is in seconds since the epoch.
    """

    pid: int | None
    command: str
    since: float | None


_ours: dict[str, tuple[int, Held]] = {}
_guard = threading.Lock()


@contextmanager
def held(folder: Path) -> Iterator[Held]:
    """Hold the lock of a run folder; within the same thread it may be taken again.

    The processes that a killed lab left there are ended. Raises :class:`InUse` in one line that names who
    has it.
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
    """One line that says who works in a folder; empty if nobody does. Nothing is written there."""
    return _who(folder, _read(folder / NAME)) if _is_held(folder) else ""


def user_of(folder: Path) -> Holder | None:
    """Who works in a folder; None if nobody does. Nothing is written there."""
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
    """Whether another process holds the lock; those that look do not stand in each other's way."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # there is none, or it is no file of the lab's
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS or _lives(_read(folder / NAME))
    finally:
        os.close(file)
    return False


def _take(folder: Path) -> Lock:
    """The lock of a folder, taken; the file is the one that others see under its name."""
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
    """Whether the process that the file names is there, where the file system has no locks."""
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
    """Whether a number can be a process's: `kill -1`, which somebody may paste, would end all of theirs."""
    return type(pid) is int and 0 < pid < 2**31


def _shown(command: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in command[:_MOST_COMMAND])


def _read(path: Path) -> dict[str, Any]:
    """What the holder wrote; anybody may have written it, so nothing in it is believed without a look."""
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
        # Who knows the id of a run may have a process of its own taken for one of the run's.
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, json.dumps(row).encode())
    finally:
        os.close(descriptor)
