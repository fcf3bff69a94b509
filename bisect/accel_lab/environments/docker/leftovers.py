"""Containers that a killed lab left behind: known by their labels, removed by the next lab."""

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
    """The labels of a run's container: its marker, the process that waits for it, and its latest end."""
    return {
        RUN: marker,
        OWNER: f"{_machine()} {os.getpid()} {_born(os.getpid())}",
        DEADLINE: str(int(time.time() + timeout_s + MARGIN_S)),
    }


def is_leftover(found: Mapping[str, str]) -> bool:
    """Whether nobody waits for this container any more.

    A process of this machine is asked for; of one elsewhere (a lab in a container with our daemon's socket)
    only the clock decides.
    """
    machine, _, process = found.get(OWNER, "").rpartition(" ")[0].partition(" ")
    if machine == _machine() and process.isdigit():
        return _born(int(process)) != found[OWNER].rpartition(" ")[2]
    deadline = found.get(DEADLINE, "")
    return deadline.isdigit() and time.time() > int(deadline)


def remove_leftovers(client: Any) -> int:
    """Remove them; how many there were."""
    removed = 0
    with daemon_errors("cannot look for containers of earlier runs"):
        for container in client.containers.list(all=True, filters={"label": RUN}, ignore_removed=True):
            if is_leftover(container.labels):
                try:
                    container.remove(force=True, v=True)
                except docker.errors.APIError:
                    continue  # another lab was faster, or it is being removed
                removed += 1
    return removed


def _machine() -> str:
    """This machine since its last start, as far as pids mean the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, space = "", ""
    return f"{platform.node()}/{boot}/{space}".replace(" ", "_")


def _born(pid: int) -> str:
    """When a process started, unlike that of a later one of the same pid; empty if it is gone."""
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
