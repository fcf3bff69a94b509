"""Runs the three things that the benchmarks time against each other: the script, the lab, torch's bisector.

Every run gets its own empty cache folder, so nothing of the user's is read or deleted, and its own
process group, so that a hang is ended whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from golden import ROOT, release

#: torch's bisector names a backend and a subsystem; these are the lab's names for what they blame.
_TORCH_BACKENDS = {
    "eager": "dynamo",
    "aot_eager": "aot_autograd",
    "aot_eager_decomp_partition": "decomposition",
    "aot_eager_decomp_partition_crossref": "meta_kernel",
    "inductor": "kernel",
}
_TORCH_SUBSYSTEMS = {
    "decomposition": "decomposition",
    "cse": "partitioner",
    "pre_grad_passes": "fx_passes",
    "joint_graph_passes": "fx_passes",
    "post_grad_passes": "fx_passes",
    "lowerings": "lowering",
}


@dataclass(frozen=True, kw_only=True)
class ProcessExit:
    """How a command ended: ``code`` is None where it was stopped at its timeout."""

    code: int | None
    seconds: float
    cpu_s: float
    stdout: str
    stderr: str


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """One run of ``accel-lab bisect --json``; ``findings`` is None where it printed none."""

    ended: ProcessExit
    findings: dict[str, Any] | None


def run_command(
    command: Sequence[str], *, env: Mapping[str, str], timeout_s: float, cwd: str | None = None
) -> ProcessExit:
    """Run to the end or the timeout; the CPU seconds are those of the whole tree of processes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start, before = time.perf_counter(), os.times()
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        code: int | None
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(child)
        seconds, after = time.perf_counter() - start, os.times()
        cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
        out.seek(0)
        err.seek(0)
        return ProcessExit(
            code=code,
            seconds=seconds,
            cpu_s=cpu_s,
            stdout=out.read().decode(errors="replace"),
            stderr=err.read().decode(errors="replace"),
        )


def end_group(child: subprocess.Popen[bytes], patience_s: float = 15.0) -> None:
    """End a process and its group, gently first: the lab's own children are in groups that only it knows."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if child.poll() is None:
            child.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(patience_s)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def stop_when_asked() -> None:
    """Let SIGTERM unwind the benchmark as an exception does, so that what it started is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def torch_version(python: str) -> str:
    """The release of torch that an interpreter has; empty where it has none. Does not import torch."""
    code = "import importlib.metadata as m; print(m.version('torch'))"
    ended = run_command([python, "-c", code], env=os.environ, timeout_s=60)
    return ended.stdout.strip() if ended.code == 0 else ""


def build_of(python: str) -> str:
    """The release of torch that an interpreter has, without what is behind its ``+``; ends without one."""
    version = torch_version(python)
    if not version:
        raise SystemExit(f"{python}: no torch there")
    return release(version)


def missing_modules(python: str, names: Sequence[str]) -> list[str]:
    """Those of the top-level modules that an interpreter lacks; nothing is imported."""
    code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    if not names:
        return []
    return run_command([python, "-c", code, *names], env=os.environ, timeout_s=60).stdout.split()


def clean_environment(folder: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a cold run: the user's, with caches of its own."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
    return {**os.environ, **caches, **extra}


def run_plain(
    python: str, command: Sequence[str], *, env: Mapping[str, str], timeout_s: float
) -> ProcessExit:
    """Run the script as its user would, cold."""
    folder = tempfile.mkdtemp(prefix="accel-lab-plain-")
    try:
        return run_command(
            [python, *command], env=clean_environment(folder, env), timeout_s=timeout_s, cwd=folder
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_bisect(
    python: str,
    command: Sequence[str],
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str],
    timeout_s: float,
    out: str | None = None,
    workarounds: bool = False,
    whole: bool = False,
) -> Bisection:
    """Run ``accel-lab bisect --json`` on one script, from this checkout, without reduction and bundle.

    ``workarounds``: workarounds are looked for too. ``whole``: everything that a user gets by default.
    """
    folder = tempfile.mkdtemp(prefix="accel-lab-bisect-")
    less = [] if whole else ["--no-bundle", "--no-minimize", *([] if workarounds else ["--no-workarounds"])]
    options = ["--json", "-q", *less, "--python", python, "--out", out or f"{folder}/out", *args]
    path = os.pathsep.join(p for p in (str(ROOT / "bisect"), os.environ.get("PYTHONPATH", "")) if p)
    try:
        ended = run_command(
            [sys.executable, "-m", "accel_lab", "bisect", *options, *command],
            env={**os.environ, **env, "PYTHONPATH": path},
            timeout_s=timeout_s,
            cwd=folder,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Bisection(ended=ended, findings=parse_findings(ended.stdout))


def parse_findings(text: str) -> dict[str, Any] | None:
    """The findings object on standard output, or None; nothing else may be printed there."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return None
    return data if isinstance(data, dict) and str(data.get("schema", "")).startswith("accel-lab/") else None


def run_torch_bisector(
    python: str, command: Sequence[str], *, env: Mapping[str, str], timeout_s: float
) -> tuple[str, ProcessExit]:
    """Run torch's own compiler bisector (2.9 on has ``run``); return the stage that it blames.

    It deletes the cache folder that it finds, hence the throw-away one; it always exits 0.
    """
    folder = tempfile.mkdtemp(prefix="accel-lab-torch-bisector-")
    try:
        ended = run_command(
            [python, "-m", "torch._inductor.compiler_bisector", "run", python, *command],
            env=clean_environment(folder, env),
            timeout_s=timeout_s,
            cwd=folder,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return parse_torch_bisector(ended.stdout) if ended.code is not None else "timeout", ended


def parse_torch_bisector(text: str) -> str:
    """The lab's name for torch's answer; ``passes`` where it found no issue, empty where it said nothing."""
    answers = re.findall(r"^Bisection complete: (.*)$", text, flags=re.MULTILINE)
    if not answers:
        return ""
    if "no issue found" in answers[-1]:
        return "passes"
    backend = re.search(r"backend='([^']*)'", answers[-1])
    subsystem = re.search(r"subsystem='([^']*)'", answers[-1])
    if backend is None:
        return ""
    stage = _TORCH_BACKENDS.get(backend.group(1), backend.group(1))
    return _TORCH_SUBSYSTEMS.get(subsystem.group(1), stage) if subsystem else stage
