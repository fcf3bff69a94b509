"""The socket between runs and their host, in a private folder and for processes of this user only."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError

#: The environment is most of a message; the kernel allows 128 KB for a variable and a few MB in all.
_MOST_BYTES = 4 << 20
_PATIENCE_S = 20.0
_GIVEN = 3


def own_folder(folder: Path, *, make: bool = False) -> int:
    """Opens a private folder; raises :class:`LabError` if it is missing or others can access it."""
    try:
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LabError(f"{folder}: {error.strerror}") from error
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(descriptor)
        raise LabError(f"{folder} is not yours alone (chmod 700)")
    return descriptor


@contextmanager
def _at(folder: Path, name: str) -> Iterator[str]:
    """Yields a path to ``folder``/``name`` that fits a socket address and cannot be redirected by a link."""
    descriptor = own_folder(folder)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def listen(folder: Path, name: str) -> socket.socket:
    """Opens the host's end and removes an old socket; the caller must hold the host's lock."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _at(folder, name) as path:
        (folder / name).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
    listener.listen(16)
    return listener


def connect(folder: Path, name: str) -> socket.socket:
    """Connects a run to the host; raises :class:`LabError` if no host of this user listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _at(folder, name) as path:
            found = os.lstat(path)
            if found.st_uid != os.geteuid() or not stat.S_ISSOCK(found.st_mode):
                raise LabError(f"{folder / name} is not a socket of yours")
            connection.settimeout(_PATIENCE_S)
            connection.connect(path)
        expect_own(connection)
    except OSError as error:
        connection.close()
        raise LabError(f"no server is left: {error.strerror}") from error
    except LabError:
        connection.close()
        raise
    return connection


def expect_own(connection: socket.socket) -> None:
    """Raises :class:`LabError` if the peer is not a process of this user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    if user != os.geteuid():
        raise LabError(f"the other end of the socket is of user {user}")


def send(connection: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    """Sends one message as a line of JSON, with open file descriptors. Raises OSError."""
    data = (json.dumps(message) + "\n").encode()
    sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else 0
    if sent < len(data):  # an empty send fails too once the other side has answered and closed
        connection.sendall(data[sent:])


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receives one message and its file descriptors, which the caller must close.

    Raises :class:`LabError` for a malformed message, OSError if none comes.
    """
    data, descriptors = b"", list[int]()
    try:
        while not data.endswith(b"\n"):
            chunk, more, _, _ = socket.recv_fds(connection, 1 << 16, _GIVEN, socket.MSG_CMSG_CLOEXEC)
            descriptors += more
            data += chunk
            if not chunk or len(data) > _MOST_BYTES or len(descriptors) > _GIVEN:
                raise LabError("the other end sent no message")
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            raise LabError("the other end sent no message") from None
        if not isinstance(message, dict):
            raise LabError("the other end sent no message")
    except BaseException:
        for one in descriptors:
            os.close(one)
        raise
    return message, descriptors
