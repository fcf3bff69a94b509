"""Runs a command of the lab in its own process, and finds the run that it left."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import accel_lab
from accel_lab.core.probe import Limits
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.execution.lending.hosted import HOSTED
from accel_lab.execution.processes import process

#: The command limits what it runs (``--budget``, ``--timeout``), so it needs no limits itself.
_LIMITS = Limits(timeout_s=30 * 86_400.0, memory_mb=1 << 24, processes=1 << 16)
_MAIN = "import sys; sys.path.insert(0, {root!r}); from accel_lab.cli.main import main; main()"
#: Exit codes of a command that finished.
ENDS = (0, 1, 125)


@dataclass(frozen=True, kw_only=True)
class LabRun:
    """How the command ended; ``said`` is its last line on standard error with the reason of its end."""

    exit_code: int | None
    said: str

    @property
    def finished(self) -> bool:
        return self.exit_code in ENDS


def run_lab(words: Sequence[str], *, cwd: Path, folder: Path, stop: threading.Event | None = None) -> LabRun:
    """Runs ``accel-lab WORDS`` in ``cwd``, with output to ``out.txt`` and ``err.txt`` in ``folder``.

    All commands of one process share its clean warm servers, one for each build.
    """
    root = str(Path(accel_lab.__file__).resolve().parents[1])
    ended = process.run(
        [sys.executable, "-c", _MAIN.format(root=root), *words],
        cwd=cwd,
        env={**os.environ, **HOSTED.environment()},
        stdout=folder / "out.txt",
        stderr=folder / "err.txt",
        limits=_LIMITS,
        marker=f"job-{uuid.uuid4().hex}",
        stop=stop,
    )
    lines = (ChildFiles(folder).tail("err.txt", 20_000) or "").strip().splitlines()
    said = f"{lines[-1] if lines else f'accel-lab {words[0]} printed nothing'} ({ended.summary})"
    return LabRun(exit_code=ended.exit_code, said=said)


def newest_run(folder: Path) -> Path | None:
    """Returns the most recent run folder below ``runs/``, or None."""
    runs = [path.parent for path in (folder / "runs").glob("*/request.json")]
    return max(runs, key=lambda run: run.stat().st_mtime, default=None)


__all__ = ["ENDS", "LabRun", "newest_run", "run_lab"]
