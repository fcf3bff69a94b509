"""The clean server, shared by several runs: imports torch once and forks a warm server for each run.

The clean server runs no user code. A request is one byte on its socket, with three file descriptors: standard
input, output and error of the run's warm server. It answers with JSON messages on the same socket:
``{"event": "ready"}``, ``{"event": "forked", "pid"}``, ``{"event": "ended", "pid"}``, and
``{"event": "stale", "why"}`` if it must no longer be used. It exits when the socket's other end is closed.

The set-up of a fork comes first on the fork's standard input: eight digits, which are the length in bytes of
the JSON object that follows. Its keys are ``env`` (the whole environment), ``names`` (variables that must
appear in ``/proc/PID/environ``, by which the lab finds its processes), ``cwd`` and ``limits``
(``[soft, hard]`` by names of ``resource``).
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import resource
import select
import socket
import sys
import time
from typing import Any, Dict, List, Set

#: File descriptors in a request.
_GIVEN = 3
_MOST_SETUP_BYTES = 1 << 23


class Files:
    """Detects changes of the files that this process loaded, and of the folders on ``sys.path``.

    After a change, a new process would load other code than this one. ``began`` is the time (s) when this
    process started to import; a file modified since then counts as changed.
    """

    def __init__(self, began: float, without: str) -> None:
        """``without`` is a folder whose files are ignored, because this process creates them."""
        self._known: Dict[str, Any] = {}
        self.late = ""
        for path in self._loaded():
            if not path.startswith(without + os.sep):
                self._known[path] = _state(path)
                if self._known[path] is None or self._known[path][0] > began * 1e9:
                    self.late = path

    def changed(self) -> str:
        """Returns the path of a file that changed since it was loaded; empty if none did."""
        if self.late:
            return self.late
        return next((path for path, known in self._known.items() if _state(path) != known), "")

    def _loaded(self) -> Set[str]:
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        found = {os.path.abspath(path) for path in modules if isinstance(path, str)}
        for folder in filter(os.path.isdir, sys.path):
            found.add(os.path.abspath(folder))
            paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pth")]
            found.update(os.path.abspath(path) for path in paths)
        with open("/proc/self/maps", "rb") as stream:
            words = [line.split(None, 5) for line in stream]
        mapped = [os.fsdecode(line[5]).rstrip("\n") for line in words if len(line) == 6]
        return found | {path for path in mapped if path.startswith("/") and ".so" in os.path.basename(path)}


def _state(path: str) -> Any:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


def lend(descriptor: int, prepare: Any = None, serve: Any = None) -> None:
    """Serves requests until the socket closes; tests replace ``prepare`` and ``serve``."""
    from . import server

    prepare, serve = prepare or server.prepared, serve or server.serve_from
    control = socket.socket(fileno=descriptor)
    began, before = time.time(), dict(os.environ)
    facts = prepare()
    made = {name: value for name, value in os.environ.items() if before.get(name) != value}
    files = Files(began, os.getcwd())
    _say(control, event="ready")
    running: Set[int] = set()
    while True:
        readable, _, _ = select.select([control], [], [], 1.0)
        _reap(control, running)
        if not readable:
            continue
        given = _given(control)
        if given is None:
            return
        why = files.changed()
        if why:
            _say(control, event="stale", why=why)
        else:
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                _become(control, given, made, lambda: serve(server_answers(), facts))
            running.add(pid)
            _say(control, event="forked", pid=pid)
        for one in given:
            os.close(one)


def _given(control: Any) -> Any:
    """Receives the file descriptors of a request; None if the other end is closed."""
    fds = array.array("i")
    data, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(_GIVEN * fds.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return list(fds) if data else None


def _say(control: Any, **message: Any) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        return  # the other end is closed; the next ``select`` notices


def _reap(control: Any, running: Set[int]) -> None:
    for pid in list(running):
        ended, _ = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.discard(pid)
            _say(control, event="ended", pid=pid)


def _become(control: Any, given: List[int], made: Any, serve: Any) -> None:
    """Runs a fork as the warm server of one run; ``made`` are the variables that imports have set."""
    code = 70
    try:
        control.close()
        os.setsid()
        for target, one in enumerate(given):
            os.dup2(one, target)
        os.closerange(_GIVEN, 256)
        _set_up(_read_setup(), made)
        serve()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        except BaseException:
            pass
        os._exit(code)


def server_answers() -> Any:
    """Returns the stream for the answers of the run's warm server."""
    from .server import take_answers

    return take_answers()


def _read_setup() -> Any:
    size = int(_read(8))
    if not 0 < size <= _MOST_SETUP_BYTES:
        raise ValueError("a setup of %d bytes" % size)
    return json.loads(_read(size).decode())


def _read(size: int) -> bytes:
    """Reads exactly ``size`` bytes from standard input, as the jobs follow them."""
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            raise EOFError("the run went away")
        data += chunk
    return data


def _set_up(setup: Any, made: Any) -> None:
    for name, value in setup["names"].items():
        _show(name, value)
    os.environ.clear()
    os.environ.update(setup["env"])
    os.environ.update(made)
    os.environ.update(setup["names"])
    for name, limit in setup["limits"].items():
        number = getattr(resource, name)
        if resource.getrlimit(number) != tuple(limit):
            resource.setrlimit(number, tuple(limit))
    os.chdir(setup["cwd"])


def _show(name: str, value: str) -> None:
    """Overwrites a variable's initial value in memory; raises ``ValueError`` if the lengths differ.

    ``/proc/PID/environ`` shows the memory that the kernel filled at the start, not later changes.
    """
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    at = libc.getenv(name.encode())
    text = value.encode()
    if not at or len(ctypes.string_at(at)) != len(text):
        raise ValueError("%s cannot be shown" % name)
    ctypes.memmove(at, text, len(text))
    with open("/proc/self/environ", "rb") as stream:
        if b"%s=%s" % (name.encode(), text) not in stream.read().split(b"\0"):
            raise ValueError("%s is not shown" % name)
