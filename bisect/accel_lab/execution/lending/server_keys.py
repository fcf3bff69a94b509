"""Decides when a server that was started earlier may serve a run: environment and process state must match.

All environment variables count, except those that only describe the shell's session. State that a process
inherits counts too: stack limit, priority, namespaces, groups, signals. A run that differs needs another
server.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from accel_lab.execution.processes.guardian import RUN
from accel_lab.execution.processes.process_table import MARKER
from accel_lab.execution.run_folder.workspace import copied_folders, package_file

#: Environment variable with the folder of the host that the parent process keeps for this one.
SERVERS = "ACCEL_LAB_SERVERS"
#: Variables that are set anew for each server and each probe.
_OWN = frozenset({MARKER, RUN, SERVERS, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"})
#: Variables that differ between shells, terminals and logins and do not affect torch.
_PLACES = frozenset(
    {
        *("_", "COLUMNS", "GPG_TTY", "INVOCATION_ID", "JOURNAL_STREAM", "LINES", "OLDPWD", "PWD", "SHLVL"),
        *("SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "STY", "TERM_SESSION_ID", "TMUX"),
        *("TMUX_PANE", "WINDOW", "WINDOWID", "XDG_SESSION_ID"),
    }
)
#: Prefixes of variables that are options of the lab's own commands.
_OPTIONS = ("ACCEL_LAB_BISECT_", "ACCEL_LAB_MINIMIZE_", "ACCEL_LAB_TRIAGE_")
_STATUS = (
    *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"),
    *("SigBlk", "Cpus_allowed_list", "Mems_allowed_list", "Umask"),
)
#: Signals that each probe sets for itself; the lab handles some of them while it waits.
_PROBES_OWN = sum(
    1 << (number - 1) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)
)
#: Resource limits that a fork takes over later; RLIMIT_STACK only counts at the start of a process.
LIMITS = tuple(name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_STACK")

#: The state of a thread: a new process inherits most of it from the thread that starts it.
_SELF = Path("/proc/thread-self")


def same_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that must match."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _OWN and name not in _PLACES and not name.startswith(_OPTIONS)
    }


def server_key(python: str, environment: Mapping[str, str], code: str) -> str:
    """Returns the key of the clean server for an interpreter; ``code`` is the digest of the child's code."""
    path = environment.get("PATH", os.defpath)
    names = {environment.get("CXX", "") or "g++", environment.get("CC", "") or "gcc", "clang++"}
    compilers = [shutil.which(name, path=path) for name in sorted(names)]
    files = [
        os.path.abspath(python),
        os.path.realpath(python),
        *map(os.path.realpath, filter(None, compilers)),
    ]
    parts = [code, same_environment(environment), [[name, *_state(name)] for name in files]]
    return _digest(json.dumps(parts, sort_keys=True))[:24]


def process_key() -> str:
    """Returns the name of the host for processes with this one's inherited state."""
    parts: list[object] = [_text(Path(__file__).with_name("host.py"))]
    status = dict(line.split(":", 1) for line in _text(_SELF / "status").splitlines() if ":" in line)
    parts += [status.get(name, "").split() for name in _STATUS]
    parts.append(int(status.get("SigIgn", "0"), 16) & ~_PROBES_OWN)
    parts += [_text(_SELF / name) for name in ("cgroup", "personality", "oom_score_adj")]
    parts.append(sorted(_link(entry) for entry in (_SELF / "ns").iterdir()))
    parts.append([os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)])
    parts.append(resource.getrlimit(resource.RLIMIT_STACK))
    return _digest(json.dumps(parts))[:16]


def package_code() -> str:
    """Returns the digest of this lab's child code, equal to :func:`copied_code` of an identical copy."""
    found: dict[str, Path] = {f"accel_lab/{package_file().name}": package_file()}
    for folder, place, without in copied_folders():
        found.update({f"{place}/{inner}": path for inner, path in _files(folder) if path.name != without})
    return _digest_of(found)


def copied_code(library: Path) -> str:
    """Returns the digest of a copy of the child in ``library``, with its adapters."""
    return _digest_of(dict(_files(library)))


def _files(folder: Path) -> list[tuple[str, Path]]:
    return [
        (path.relative_to(folder).as_posix(), path)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]


def _digest_of(files: Mapping[str, Path]) -> str:
    whole = hashlib.sha256()
    for name, path in sorted(files.items()):
        whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def _state(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return path.name


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
