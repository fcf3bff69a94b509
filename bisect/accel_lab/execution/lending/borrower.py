"""A run's side: its warm server is a fork of a clean one, which an earlier run or this one's caller left."""

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

from . import channel, sameness
from .clean_server import START_TIMEOUT_S

LOG = logging.getLogger("accel_lab.lending")
MAIN = (
    "import sys; sys.path.insert(0, {root!r}); from accel_lab.execution.lending.host import main; "
    "sys.exit(main(sys.argv[1:]))"
)
#: So long a host may take until it listens.
_HOST_S = 20.0
_END_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Where clean servers are kept. ``keep_s`` 0: one that is there is used, none is started or left.

    ``hosted``: whoever started this process keeps the host, which is there as long as it needs one.
    """

    folder: Path
    keep_s: float = 0.0
    hosted: bool = False

    @property
    def starts(self) -> bool:
        """Whether a clean server is started where none fits."""
        return self.hosted or self.keep_s > 0

    def leaves_one(self) -> bool:
        """Whether a host that this process may have started is there now."""
        return self.keep_s > 0 and (self.folder / sameness.process_key()).is_socket()


def servers_of(environment: Mapping[str, str], *, keep_s: float) -> Servers | None:
    """What this process may use: its caller's servers, else those that are left by the user's own runs.

    None where the caller wants none, or is a lab that keeps none: what would be left, or used, is out of its
    sight.
    """
    if not HAVE_PROC:
        return None
    given = environment.get(sameness.SERVERS)
    if given is not None:
        return Servers(folder=Path(given), hosted=True) if given else None
    if RUN in environment or MARKER in environment:
        return None
    return Servers(folder=left_folder(), keep_s=keep_s)


def without_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """What a script is given: a lab that it runs by itself must not have it served out of our sight."""
    return {name: value for name, value in environment.items() if name != sameness.SERVERS}


def left_folder() -> Path:
    """Where the user's own runs leave them."""
    return cache_folder() / "servers"


@dataclass(frozen=True, kw_only=True)
class Borrowed:
    """A fork that is this run's own: its pipes, and its place in the process table."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    process: Process

    def end(self) -> None:
        """End it and all that it forked; it kills those itself where it still can."""
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
    furnish: Callable[[Path], None],
) -> tuple[Borrowed, Path | None]:
    """A warm server with this environment, and the folder of the clean one where it had to be started.

    ``library`` is where the run's own copy of the child lies; ``furnish`` puts into the cache folder of a new
    clean server what is known of the compiler. Raises :class:`LabError` where the run must start its own.
    """
    code = sameness.package_code()
    if sameness.copied_code(library) != code:
        raise LabError("the run's copy of the child is of another lab")
    name = sameness.process_key()
    key = sameness.server_key(python, environment, code)
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
                folder = _furnished(servers.folder, name, furnish)
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
    """Our end and theirs of a pipe; both are closed with the stack."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    stack.callback(os.close, write)
    return (read, write) if reading else (write, read)


def _checked(answer: Mapping[str, Any]) -> Process:
    """The process that was lent: what the host says is looked up."""
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
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in sameness.LIMITS},
    }
    data = json.dumps(setup).encode()
    try:
        borrowed.stdin.write(b"%08d" % len(data) + data)
        borrowed.stdin.flush()
    except OSError as error:
        borrowed.end()
        raise LabError(f"the server that was lent is gone: {error}") from error


def _furnished(folder: Path, name: str, furnish: Callable[[Path], None]) -> Path:
    """A new folder for a clean server, with the child's code and a cache."""
    place = folder / f"server-{name}-{uuid.uuid4().hex}"
    try:
        place.mkdir(mode=0o700)
        copy_child(place / "lib")
        (place / "cache" / "triton").mkdir(parents=True)
        furnish(place / "cache")
    except OSError as error:
        remove(place)
        raise LabError(f"{place}: {error.strerror}") from error
    return place


@contextlib.contextmanager
def _connected(servers: Servers, name: str) -> Any:
    """A connection to the host, which is started where that is wanted and there is none."""
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
    """Wait for the host that our caller has just started, or for one that we start."""
    host = None
    if not servers.hosted:
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
            # Code 3: another run was first, and its host is about to listen.
            ended = host is not None and host.poll() not in (None, 3)
            if ended or _is_anothers(servers, name) or time.monotonic() > deadline:
                raise


def _is_anothers(servers: Servers, name: str) -> bool:
    """Whether the host that our caller keeps is gone, or is none for a process as we are."""
    try:
        others = (path for path in servers.folder.iterdir() if path.name != name)
        return servers.hosted and any(path.is_socket() for path in others)
    except OSError:
        return True


def host_words(folder: Path, name: str, keep_s: float) -> list[str]:
    """The arguments with which Python becomes the host."""
    root = str(Path(accel_lab.__file__).resolve().parents[1])
    return ["-c", MAIN.format(root=root), str(folder), name, f"{keep_s:g}"]


def end_left(folder: Path) -> int:
    """Tell every host in the folder to end as soon as nothing is lent; how many there were."""
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
