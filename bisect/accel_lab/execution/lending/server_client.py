"""Gets a run its warm server as a fork of a clean server that an earlier run or the caller keeps."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import accel_lab
from accel_lab.core.errors import LabError
from accel_lab.core.machine.files import remove
from accel_lab.core.machine.places import cache_folder
from accel_lab.execution.processes import process_table
from accel_lab.execution.processes.guardian import GUARDIAN, RUN
from accel_lab.execution.processes.process import MARKER, start_apart
from accel_lab.execution.processes.process_table import HAVE_PROC, Process
from accel_lab.execution.run_folder.workspace import copy_child

from . import channel, server_keys
from .clean_server import START_TIMEOUT_S

LOG = logging.getLogger("accel_lab.lending")
MAIN = (
    "import sys; sys.path.insert(0, {root!r}); from accel_lab.execution.lending.host import main; "
    "sys.exit(main(sys.argv[1:]))"
)
#: Most seconds until a new host listens.
_HOST_S = 20.0
_END_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The folder of clean servers. With ``keep_s`` 0 an existing one is used, but none is started or left.

    ``has_host`` means that the process that started this one keeps the host, for as long as it needs one.
    """

    folder: Path
    keep_s: float = 0.0
    has_host: bool = False

    @property
    def starts(self) -> bool:
        """Whether a clean server is started if no existing one fits."""
        return self.has_host or self.keep_s > 0

    def leaves_one(self) -> bool:
        """Whether a host that this process may have started is running."""
        return self.keep_s > 0 and (self.folder / server_keys.process_key()).is_socket()


def servers_of(environment: Mapping[str, str], *, keep_s: float) -> Servers | None:
    """Returns the servers that this process may use: its caller's, else those that the user's own runs left.

    None if the caller wants none, or if another lab started this process: that lab could not watch the
    server.
    """
    if not HAVE_PROC:
        return None
    given = environment.get(server_keys.SERVERS)
    if given is not None:
        return Servers(folder=Path(given), has_host=True) if given else None
    if RUN in environment or MARKER in environment:
        return None
    return Servers(folder=left_folder(), keep_s=keep_s)


def without_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """Removes the servers' variable, so that a lab inside a script uses no server that we cannot watch."""
    return {name: value for name, value in environment.items() if name != server_keys.SERVERS}


def left_folder() -> Path:
    """The folder in which the user's own runs leave their servers."""
    return cache_folder() / "servers"


@dataclass(frozen=True, kw_only=True)
class Borrowed:
    """A fork that belongs to this run: its pipes, and its entry in the process table."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    process: Process

    def end(self) -> None:
        """Closes the fork's stdin, so that it kills its forks and exits; kills it if that takes too long."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        deadline = time.monotonic() + _END_S
        while (now := process_table.read(self.process.pid)) and now.key == self.process.key and now.alive:
            if time.monotonic() > deadline:
                process_table.send(self.process, signal.SIGKILL)
                break
            time.sleep(0.005)


def borrow(
    servers: Servers,
    *,
    python: str,
    library: Path,
    environment: Mapping[str, str],
    marker: str,
    log: Path,
    fill_cache: Callable[[Path], None],
) -> tuple[Borrowed, Path | None]:
    """Returns a warm server with this environment, and the clean server's folder if that had to be started.

    ``library`` is the run's own copy of the child. ``fill_cache`` fills a new clean server's cache folder
    with what is known about the compiler. Raises :class:`LabError` if the run must start its own server.
    """
    code = server_keys.package_code()
    if server_keys.copied_code(library) != code:
        raise LabError("the run's copy of the child is of another lab")
    name = server_keys.process_key()
    key = server_keys.server_key(python, environment, code)
    request: dict[str, Any] = {"ask": "lend", "key": key}
    folder = None
    for attempt in range(3):
        with contextlib.ExitStack() as stack:
            ours_in, theirs_in = _pipe(stack, reading=False)
            ours_out, theirs_out = _pipe(stack, reading=True)
            with log.open("ab") as errors, _connected(servers, name) as connection:
                try:
                    channel.send(connection, request, [theirs_in, theirs_out, errors.fileno()])
                    connection.settimeout(START_TIMEOUT_S)
                    answer, _ = channel.receive(connection)
                except OSError as error:
                    raise LabError(f"the host of the servers went away: {error}") from error
            if "need" in answer and servers.starts and attempt < 2:
                folder = _server_folder(servers.folder, name, fill_cache)
                request["start"] = {
                    "python": python,
                    "folder": folder.name,
                    "environment": dict(environment),
                }
                continue
            process = _checked(answer)
            os.close(theirs_in)
            os.close(theirs_out)
            stack.pop_all()
            borrowed = Borrowed(
                stdin=os.fdopen(ours_in, "wb"), stdout=os.fdopen(ours_out, "rb"), process=process
            )
        _set_up(borrowed, environment, marker, log.parent)
        return borrowed, folder
    raise LabError("the files of the build change all the time")


def _pipe(stack: contextlib.ExitStack, *, reading: bool) -> tuple[int, int]:
    """Opens a pipe and returns our end and theirs; the stack closes both."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    stack.callback(os.close, write)
    return (read, write) if reading else (write, read)


def _checked(answer: Mapping[str, Any]) -> Process:
    """Looks up the process that the host names, and checks that it is this user's."""
    pid = answer.get("pid")
    if not isinstance(pid, int) or pid <= 1:
        raise LabError(str(answer.get("refused") or "no clean server of this build is there"))
    found = process_table.read(pid)
    try:
        ours = os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        ours = False
    if found is None or not ours:
        raise LabError("the server that was lent is no process of yours")
    return found


def _set_up(borrowed: Borrowed, environment: Mapping[str, str], marker: str, cwd: Path) -> None:
    GUARDIAN.tell([borrowed.process])
    setup = {
        "env": dict(environment),
        "names": {MARKER: marker, RUN: GUARDIAN.run},
        "cwd": str(cwd),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in server_keys.LIMITS},
    }
    data = json.dumps(setup).encode()
    try:
        borrowed.stdin.write(b"%08d" % len(data) + data)
        borrowed.stdin.flush()
    except OSError as error:
        borrowed.end()
        raise LabError(f"the server that was lent is gone: {error}") from error


def _server_folder(folder: Path, name: str, fill_cache: Callable[[Path], None]) -> Path:
    """Makes a folder for a new clean server, with the child's code and a cache."""
    place = folder / f"server-{name}-{uuid.uuid4().hex}"
    try:
        place.mkdir(mode=0o700)
        copy_child(place / "lib")
        (place / "cache" / "triton").mkdir(parents=True)
        fill_cache(place / "cache")
    except OSError as error:
        remove(place)
        raise LabError(f"{place}: {error.strerror}") from error
    return place


@contextlib.contextmanager
def _connected(servers: Servers, name: str) -> Any:
    """Yields a connection to the host; starts a host if there is none and ``servers`` allows it."""
    try:
        connection = channel.connect(servers.folder, name)
    except LabError as error:
        if not servers.starts:
            raise
        LOG.debug("host %s: %s", name, error)
        connection = _connected_anew(servers, name)
    with connection:
        yield connection


def _connected_anew(servers: Servers, name: str) -> Any:
    """Waits for the host that our caller has just started, or starts one and waits for it."""
    host = None
    if not servers.has_host:
        os.close(channel.own_folder(servers.folder, make=True))
        host = start_apart(
            [sys.executable, *host_words(servers.folder, name, servers.keep_s)],
            cwd=Path("/"),
            env={key: value for key, value in os.environ.items() if key not in (MARKER, RUN)},
        )
        LOG.info("a host of warm servers was started (process %d)", host.pid)
    deadline = time.monotonic() + _HOST_S
    while True:
        time.sleep(0.02)
        try:
            return channel.connect(servers.folder, name)
        except LabError:
            # Exit code 3: another run's host holds the lock and is about to listen.
            ended = host is not None and host.poll() not in (None, 3)
            if ended or _is_anothers(servers, name) or time.monotonic() > deadline:
                raise


def _is_anothers(servers: Servers, name: str) -> bool:
    """Whether the caller's host is gone, or serves only processes with other settings than this one."""
    try:
        others = (path for path in servers.folder.iterdir() if path.name != name)
        return servers.has_host and any(path.is_socket() for path in others)
    except OSError:
        return True


def host_words(folder: Path, name: str, keep_s: float) -> list[str]:
    """Returns the arguments for Python to run as the host."""
    root = str(Path(accel_lab.__file__).resolve().parents[1])
    return ["-c", MAIN.format(root=root), str(folder), name, f"{keep_s:g}"]


def end_left(folder: Path) -> int:
    """Tells every host in the folder to end once no fork is lent; returns the number of hosts."""
    try:
        os.close(channel.own_folder(folder))
    except LabError:
        return 0
    asked = 0
    for path in folder.iterdir():
        if "." in path.name or not path.is_socket():
            continue
        try:
            with channel.connect(folder, path.name) as connection:
                channel.send(connection, {"ask": "end", "key": ""})
                channel.receive(connection)
            asked += 1
        except (LabError, OSError):
            continue
    return asked
