"""Isolates a container: pure functions from a run's limits to the arguments that create the container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docker.types import LogConfig, Mount, Ulimit

from accel_lab.core.machine.variables import torch_variables
from accel_lab.core.probe import Limits

# Threads take pids too; normal programs have hundreds on a large machine, a fork bomb takes any number.
PIDS_PER_PROCESS = 4
TMP_BYTES = 2 << 30
SHM_BYTES = 1 << 30
HOME = "/tmp/home"


def environment(base: Mapping[str, str], extra: Sequence[str] = ()) -> dict[str, str]:
    """Returns the variables set in the container: those of ``base`` that may affect a run, and writable
    places.

    ``extra`` names further variables of ``base`` to pass on.
    """
    env = torch_variables(base, extra)
    # torch asks for the user's name, and this user is not in the image's /etc/passwd.
    env |= {"HOME": HOME, "USER": "probe", "LOGNAME": "probe", "TMPDIR": "/tmp"}
    env["XDG_CACHE_HOME"] = f"{HOME}/.cache"
    return env


def creation(
    *,
    limits: Limits,
    mounts: Sequence[Mount],
    user: str,
    cpus: float,
    security: Sequence[str] = (),
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Returns the arguments of ``containers.create`` that all runs share.

    ``security`` are the security options that the daemon reports.
    """
    memory = limits.memory_mb << 20
    file_bytes = limits.file_mb << 20
    options = ["no-new-privileges:true"]
    if any("name=selinux" in option for option in security):
        options.append("label=disable")  # the run's folder has no container label
    settings: dict[str, Any] = {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,size={TMP_BYTES},mode=1777"},
        "mounts": list(mounts),
        "user": user,
        "cap_drop": ["ALL"],
        "security_opt": options,
        "privileged": False,
        "pids_limit": limits.processes * PIDS_PER_PROCESS,
        "mem_limit": memory,
        "memswap_limit": memory,  # no swap on top
        "nano_cpus": int(cpus * 1e9),
        "shm_size": min(SHM_BYTES, memory),
        # Only limits that we lower: a container that asks for more than the daemon has does not start.
        "ulimits": [
            Ulimit(name="fsize", soft=file_bytes, hard=file_bytes),
            Ulimit(name="core", soft=0, hard=0),
        ],
        "init": True,
        "ipc_mode": "private",
        "hostname": "probe",
        "healthcheck": {"test": ["NONE"]},
        # The container's log holds only our report; the run's output goes to files.
        "log_config": LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        "labels": dict(labels),
        # Not detached: the daemon would keep its standard input open after the lab is gone.
        "detach": False,
        "stdin_open": True,
        "tty": False,
    }
    if any("name=userns" in option for option in security):
        settings["userns_mode"] = "host"  # otherwise the uid would map to another user
    return settings
