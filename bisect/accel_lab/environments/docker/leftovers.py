"""Removes containers that a killed lab left behind; their labels identify them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker.errors

from .client import LABEL, daemon_errors

RUN = f"{LABEL}.run"
OWNER = f"{LABEL}.owner"
DEADLINE = f"{LABEL}.deadline"
MARGIN_S = 600.0


def labels(marker: str, timeout_s: float) -> dict[str, str]:
    """Returns the labels of a run's container: its marker, the waiting process, and a deadline."""
    return {
        RUN: marker,
        OWNER: f"{_machine()} {os.getpid()} {_born(os.getpid())}",
        DEADLINE: str(int(time.time() + timeout_s + MARGIN_S)),
    }


def is_leftover(found: Mapping[str, str]) -> bool:
    """Whether no process waits for this container any more.

    On this machine the waiting process is looked up. For a lab elsewhere (in a container with our daemon's
    socket) only the deadline counts.
    """
    machine, _, process = found.get(OWNER, "").rpartition(" ")[0].partition(" ")
    if machine == _machine() and process.isdigit():
        return _born(int(process)) != found[OWNER].rpartition(" ")[2]
    deadline = found.get(DEADLINE, "")
    return deadline.isdigit() and time.time() > int(deadline)


def remove_leftovers(client: Any) -> int:
    """Removes leftover containers; returns their number."""
    removed = 0
    with daemon_errors("cannot look for containers of earlier runs"):
        for container in client.containers.list(all=True, filters={"label": RUN}, ignore_removed=True):
            if is_leftover(container.labels):
                try:
                    container.remove(force=True, v=True)
                except docker.errors.APIError:
                    continue  # another lab is removing it
                removed += 1
    return removed


def _machine() -> str:
    """Identifies this boot of this machine and its pid namespace, within which pids are comparable."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, space = "", ""
    return f"{platform.node()}/{boot}/{space}".replace(" ", "_")


def _born(pid: int) -> str:
    """Returns a process's start time, which differs if the pid is reused; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "?"
