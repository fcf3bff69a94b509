"""Serves the dashboard on a loopback address until it is stopped, and ends what it has started."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import uvicorn

from accel_lab.core.errors import UsageError

from .access import Access
from .app import application
from .bisection import Command, accel_lab_command
from .jobs import Jobs
from .places import Places
from .runs import Describe, Runs

#: Loopback addresses, with their form in a URL.
HOSTS = {"127.0.0.1": "127.0.0.1", "::1": "[::1]", "localhost": "127.0.0.1"}
_GRACE_S = 3


def listening(host: str, port: int) -> socket.socket:
    """Returns a socket on a loopback address; raises :class:`UsageError` for another host or a used port."""
    if host not in HOSTS:
        raise UsageError(
            f"the dashboard runs programs, so only this machine may reach it: --host is 127.0.0.1 or ::1, "
            f"not {host}; from elsewhere use `ssh -L {port}:127.0.0.1:{port}`"
        )
    family = socket.AF_INET6 if host == "::1" else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("::1" if host == "::1" else "127.0.0.1", port))
    except OSError as error:
        made.close()
        raise UsageError(
            f"cannot listen on port {port} ({error.strerror}): choose another with --port (0: any)"
        ) from None
    return made


def serve(
    bound: socket.socket,
    places: Places,
    describe: Describe,
    ready: Callable[[Access], None],
    mistake: Callable[[Exception], str],
    stopping: Callable[[], None],
    command: Command = accel_lab_command,
) -> None:
    """Serves until SIGINT or SIGTERM, which raises :class:`KeyboardInterrupt`; no bisection is left then.

    ``ready`` is called before the first request, ``mistake`` for an unexpected exception, and ``stopping``
    before it waits for a running bisection.
    """
    access = Access(port=bound.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="accel-lab-dashboard-") as folder:
        jobs = Jobs(folder=Path(folder), new_runs=places.new_runs, cwd=places.cwd, command=command)
        config = uvicorn.Config(
            application(access, places, Runs(places.runs, describe), jobs, mistake),
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=64,
            timeout_graceful_shutdown=_GRACE_S,
        )
        try:
            bound.listen(64)
            ready(access)
            uvicorn.Server(config).run(sockets=[bound])
        finally:
            if jobs.busy:
                stopping()
            jobs.close()
            bound.close()
