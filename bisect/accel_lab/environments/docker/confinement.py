"""How a container is isolated: pure, from the limits of a run to the arguments that create its container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docker.types import LogConfig, Mount, Ulimit

from accel_lab.core.machine.variables import steering
from accel_lab.core.probe import Limits

# Threads take pids too, and an honest program on a large machine has hundreds; a fork bomb fills any number.
PIDS_PER_PROCESS = 4
TMP_BYTES = 2 << 30
SHM_BYTES = 1 << 30
HOME = "/tmp/home"


def environment(base: Mapping[str, str], extra: Sequence[str] = ()) -> dict[str, str]:
    """The variables that are set inside: those of ``base`` that a run may depend on, and where it may write.

    ``extra`` names further variables of ``base`` that the user wants inside.
    """
    env = steering(base, extra)
    # torch asks for the user's name, and this one is in no table of users.
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
    """The arguments of ``containers.create`` that every run has, whatever it runs.

    ``security`` is what the daemon says of its own security options.
    """
    memory = limits.memory_mb << 20
    file_bytes = limits.file_mb << 20
    options = ["no-new-privileges:true"]
    if any("name=selinux" in option for option in security):
        options.append("label=disable")  # the run's folder carries no container's label
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
        "memswap_limit": memory,  # no swap beyond it
        "nano_cpus": int(cpus * 1e9),
        "shm_size": min(SHM_BYTES, memory),
        # Only such that are lowered: what the daemon has less of itself it cannot give, and would not start.
        "ulimits": [
            Ulimit(name="fsize", soft=file_bytes, hard=file_bytes),
            Ulimit(name="core", soft=0, hard=0),
        ],
        "init": True,
        "ipc_mode": "private",
        "hostname": "probe",
        "healthcheck": {"test": ["NONE"]},
        # The log holds one line of ours; a run's own output goes to its files.
        "log_config": LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        "labels": dict(labels),
        # Not detached, or the daemon would keep its standard input open when the lab is gone.
        "detach": False,
        "stdin_open": True,
        "tty": False,
    }
    if any("name=userns" in option for option in security):
        settings["userns_mode"] = "host"  # else the caller's number would mean another user
    return settings
