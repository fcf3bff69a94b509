"""Runs a module of the lab in a fresh process of an interpreter that need not have the lab installed.

The package is copied to a folder that comes first on ``PYTHONPATH``, so the interpreter finds the lab's code
and nothing else of the lab's environment. The answer is a file. Each job has its own caches and working
directory, so it starts cold.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import accel_lab
from accel_lab.core.benchmark import Reply
from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError

from . import process

_TAIL_BYTES = 64 * 1024
_LIMITS = {
    "timeout": "timed out after {timeout_s:g} s",
    "memory": "took more than {memory_mb} MB of memory",
    "output": "printed more than {output_mb} MB",
    "disk": "wrote more than {disk_mb} MB",
    "processes": "started more than {processes} processes",
    "interrupted": "was interrupted",
}


class Isolated:
    """Runs jobs of one module of the lab, each in its own process, below one folder."""

    def __init__(
        self, *, python: str, folder: Path, module: str, limits: Limits, env: Mapping[str, str] | None = None
    ) -> None:
        self._python = python
        self._folder = folder
        self._module = module
        self._limits = limits
        self._env = dict(os.environ if env is None else env)
        self._library = folder / "lib"
        source = Path(accel_lab.__file__).parent
        try:
            shutil.copytree(
                source,
                self._library / source.name,
                ignore=shutil.ignore_patterns("__pycache__", ".*"),
                dirs_exist_ok=True,
            )
        except OSError as error:
            raise LabError(f"cannot copy the lab to {self._library}: {error.strerror or error}") from None

    def ask(self, name: str, job: Mapping[str, Any]) -> Reply:
        """Runs one job and returns the reply; ``name`` names its folder."""
        place = self._folder / name
        shutil.rmtree(place, ignore_errors=True)
        for sub in ("cwd", "cache/triton"):
            (place / sub).mkdir(parents=True)
        answer = place / "answer.json"
        (place / "job.json").write_text(json.dumps({**job, "answer": str(answer)}), encoding="utf-8")
        ended = process.run(
            [self._python, "-m", self._module, str(place / "job.json")],
            cwd=place / "cwd",
            env=self._environment(place),
            stdout=place / "stdout.txt",
            stderr=place / "stderr.txt",
            limits=self._limits,
            marker=f"{name}-{uuid.uuid4().hex}",
            written=(place,),
        )
        for sub in ("cwd", "cache"):
            shutil.rmtree(place / sub, ignore_errors=True)
        return Reply(
            facts=_facts(answer),
            ended=self._how(ended),
            stderr_line=_last_line(place / "stderr.txt"),
            seconds=ended.seconds,
            folder=str(place),
        )

    def tidy(self) -> None:
        """Removes the copy of the lab."""
        shutil.rmtree(self._library, ignore_errors=True)

    def _environment(self, place: Path) -> dict[str, str]:
        env = dict(self._env)
        paths = [str(self._library), *filter(None, self._env.get("PYTHONPATH", "").split(os.pathsep))]
        env["PYTHONPATH"] = os.pathsep.join(paths)
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        env["PWD"] = str(place / "cwd")
        env["TORCHINDUCTOR_CACHE_DIR"] = str(place / "cache")
        env["TRITON_CACHE_DIR"] = str(place / "cache" / "triton")
        return env

    def _how(self, ended: process.ProcessExit) -> str:
        if ended.limit is not None:
            return _LIMITS.get(ended.limit, ended.limit).format(**self._limits.to_json())
        return f"ended by signal {ended.signal}" if ended.signal is not None else ""


def _facts(path: Path) -> dict[str, Any]:
    try:
        data = ChildFiles(path.parent).json(path.name)
    except UntrustedFileError:
        return {}
    return data if isinstance(data, dict) else {}


def _last_line(path: Path) -> str:
    try:
        lines = (ChildFiles(path.parent).tail(path.name, _TAIL_BYTES) or "").strip().splitlines()
    except UntrustedFileError:
        return ""
    return lines[-1][:300] if lines else ""
