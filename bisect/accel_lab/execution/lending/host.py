"""The process that keeps clean servers, one for each build, and has them fork for runs.

``main`` takes FOLDER NAME KEEP_S and listens on the socket FOLDER/NAME. A clean server that was not lent for
KEEP_S seconds is ended; the host ends with the last one. If the host's standard input is a pipe, it ends when
the pipe is closed. On request it ends once nothing is lent. A run that finds no host, or is refused, starts
its own server.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.machine.files import remove
from accel_lab.core.machine.locks import Lock
from accel_lab.core.untrusted.shapes import Table, misfit

from . import channel, server_keys
from .clean_server import CleanServer, Stale, Start

#: Most clean servers at a time; each holds the memory of a process that has imported torch.
MOST = 3
_TICK_S = 1.0
_REQUEST = {"ask": str, "key": str, "start?": {"python": str, "folder": str, "environment": Table(str)}}


class Host:
    """Keeps clean servers by their keys. ``make`` starts one."""

    def __init__(
        self, folder: Path, keep_s: float, make: Callable[[Start], CleanServer] = CleanServer
    ) -> None:
        self._folder = folder
        self._keep_s = keep_s
        self._make = make
        self._servers: dict[str, CleanServer] = {}
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}
        self._busy = 0
        self._last = time.monotonic()
        self.closing = False

    def answer(self, connection: socket.socket) -> None:
        """Handles one request, in its own thread; never raises for a bad request."""
        descriptors: list[int] = []
        with self._lock:
            self._busy += 1
        try:
            with connection:
                connection.settimeout(30.0)
                try:
                    channel.expect_own(connection)
                    request, descriptors = channel.receive(connection)
                    if wrong := misfit(request, _REQUEST):
                        raise LabError(wrong)
                    said = self._said(request, descriptors)
                except LabError as error:
                    said = {"refused": str(error)}
                channel.send(connection, said)
        except OSError:
            return  # the client is gone; its fork ends with its pipe
        finally:
            for one in descriptors:
                os.close(one)
            with self._lock:
                self._busy -= 1
                self._last = time.monotonic()

    def _said(self, request: dict[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        if request["ask"] == "end":
            self.closing = True
            return {"lent": sum(server.lent for server in self._servers.values())}
        if request["ask"] != "lend" or len(descriptors) != 3:
            raise LabError("there is no such request")
        if self.closing:
            raise LabError("it is about to end")
        key = request["key"]
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:  # later requests for this key wait for the first one's server
            server = self._found(key)
            start = self._start(request)
            try:
                if server is None:
                    if start is None:
                        return {"need": "start"}
                    server, start = self._started(key, start), None
                return {"pid": server.lend(descriptors)}
            except Stale:
                self._drop(key)
                return {"need": "start"}
            except LabError:
                self._drop(key)
                raise
            finally:
                if start is not None:
                    remove(start.folder)  # another run's server was used

    def _start(self, request: dict[str, Any]) -> Start | None:
        given = request.get("start")
        if given is None:
            return None
        folder = self._folder / given["folder"]
        if folder.parent != self._folder or folder.is_symlink() or not folder.is_dir():
            raise LabError(f"{given['folder']} is no folder of the host's")
        return Start(python=given["python"], folder=folder, environment=given["environment"])

    def _found(self, key: str) -> CleanServer | None:
        with self._lock:
            server = self._servers.get(key)
        if server is not None and not server.alive:
            self._drop(key)
            server = None
        return server

    def _started(self, key: str, start: Start) -> CleanServer:
        with self._lock:
            rest = sorted(
                (name for name, one in self._servers.items() if not one.lent),
                key=lambda name: self._servers[name].last_used,
            )
            full = len(self._servers) >= MOST
        if full and not rest:
            raise LabError(f"{MOST} servers are in use")
        if full:
            self._drop(rest[0])
        server = self._make(start)
        with self._lock:
            self._servers[key] = server
        return server

    def _drop(self, key: str) -> None:
        with self._lock:
            server = self._servers.pop(key, None)
        if server is not None:
            server.end()

    def is_over(self) -> bool:
        """Ends servers that were idle too long; returns whether the host should end."""
        now = time.monotonic()
        with self._lock:
            idle = [
                key
                for key, server in self._servers.items()
                if not server.lent and (self.closing or now - server.last_used > self._keep_s)
            ]
            busy = self._busy > 0
        if busy:
            return False
        for key in idle:
            self._drop(key)
        waited = self.closing or now - self._last > self._keep_s
        return waited and not self._servers

    def close(self) -> None:
        """Ends all clean servers."""
        for key in list(self._servers):
            self._drop(key)


def serve(folder: Path, name: str, keep_s: float) -> int:
    """Runs the host until it is over; returns 3 if another host holds the lock or the name is not ours."""
    if not name.startswith(server_keys.process_key()):
        return 3
    with Lock(folder / f"{name}.lock") as lock:
        if not lock.take():
            return 3
        for left in folder.glob(f"server-{name}-*"):
            remove(left)  # left by a host that was killed
        host = Host(folder, keep_s)
        with channel.listen(folder, name) as listener:
            owned = stat.S_ISFIFO(os.fstat(0).st_mode)
            watched = [listener.fileno(), *([0] if owned else [])]
            while not host.is_over() or (owned and not host.closing):
                readable, _, _ = select.select(watched, [], [], _TICK_S)
                if 0 in readable and not os.read(0, 1):
                    break
                if listener.fileno() in readable:
                    connection, _ = listener.accept()
                    threading.Thread(target=host.answer, args=(connection,), daemon=True).start()
            (folder / name).unlink(missing_ok=True)
        host.close()
    if owned:
        remove(folder)
    return 0


def main(words: Sequence[str]) -> int:
    """Runs the host with the arguments ``FOLDER NAME KEEP_S``; returns the exit code."""
    return serve(Path(words[0]), words[1], float(words[2]))
