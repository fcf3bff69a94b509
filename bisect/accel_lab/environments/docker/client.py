"""Connects to the docker daemon; without one, the error says why in one line and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors

from accel_lab.core.machine.environment import EnvironmentUnavailable

LABEL = "accel-lab"
API_TIMEOUT_S = 60
_HERE = ("unix://", "npipe://", "tcp://localhost", "tcp://127.0.0.1", "http://localhost", "http://127.0.0.1")

Connect = Callable[[], Any]  # returns a docker.DockerClient or a test's stand-in


def connector(host: str = "", *, timeout_s: float = API_TIMEOUT_S) -> Connect:
    """Returns a function that opens a client of the daemon at ``host``, by default the one of DOCKER_HOST.

    A client is one connection pool and is not thread-safe, so every run opens its own.
    """

    def connect() -> Any:
        address = host or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        if not address.startswith(_HERE):
            raise EnvironmentUnavailable(
                f"the docker daemon at {address} is on another machine and cannot see the files of a run here"
            )
        try:
            if host:
                client = docker.DockerClient(base_url=host, version="auto", timeout=int(timeout_s))
            else:
                client = docker.from_env(timeout=int(timeout_s))
            client.ping()
        except (docker.errors.DockerException, OSError, ValueError) as error:
            raise EnvironmentUnavailable(_no_daemon(address, error)) from error
        return client

    return connect


def _no_daemon(address: str, error: BaseException) -> str:
    text = str(error)
    if "PermissionError" in text or "Permission denied" in text:
        return f"no permission to use the docker daemon at {address}: join the group of its socket"
    if "FileNotFoundError" in text or "ConnectionRefused" in text or "Connection refused" in text:
        return f"no docker daemon answers at {address}: start it, or name another in DOCKER_HOST"
    return f"no docker daemon answers at {address}: {one_line(error)}"


@contextmanager
def daemon_errors(doing: str) -> Iterator[None]:
    """Turns errors of docker into EnvironmentUnavailable; ``doing`` starts the message."""
    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise EnvironmentUnavailable(f"{doing}: no such image ({one_line(error)})") from error
    except docker.errors.APIError as error:
        raise EnvironmentUnavailable(f"{doing}: docker says: {one_line(error)}") from error
    except docker.errors.DockerException as error:
        raise EnvironmentUnavailable(f"{doing}: {one_line(error)}") from error
    except OSError as error:  # includes the errors of docker's HTTP library
        raise EnvironmentUnavailable(
            f"{doing}: the docker daemon no longer answers ({one_line(error)})"
        ) from error


def one_line(error: BaseException) -> str:
    """Returns the error's message on one line; for an API error the daemon's explanation."""
    text = str(getattr(error, "explanation", None) or error) or type(error).__name__
    return " ".join(text.split())[:300]
