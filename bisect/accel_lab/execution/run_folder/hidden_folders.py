"""Runs a command with some of the user's folders hidden, to find out which of their files it needs."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.execution.processes import process

from .folder_views import enter_command


@dataclass(frozen=True, kw_only=True)
class HidingRunner:
    """A runner with the interface of ``process.run``; the command sees ``hidden`` folders as empty.

    Folders in ``real`` stay visible inside hidden ones. ``library`` is the copied child package, ``scratch``
    a folder for temporary files. Nothing is hidden if the kernel allows no mounts.
    """

    hidden: tuple[Path, ...]
    real: tuple[Path, ...]
    library: Path
    scratch: Path

    def __call__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        limits: Limits,
        marker: str,
    ) -> ProcessExit:
        def started(words: Sequence[str]) -> ProcessExit:
            return process.run(
                words, cwd=cwd, env=env, stdout=stdout, stderr=stderr, limits=limits, marker=marker
            )

        if self.hidden and sys.platform.startswith("linux"):
            with tempfile.TemporaryDirectory(prefix="view-", dir=self.scratch) as name:
                crash = Path(name) / "crash.txt"
                plan = {
                    "folders": [],
                    "hidden": [str(one) for one in self.hidden],
                    "real": [str(one) for one in self.real],
                    "upper": name,
                    "memory": False,
                    "cwd": str(cwd),
                    "crash": str(crash),
                }
                (Path(name) / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
                ended = started(enter_command(self.library, Path(name) / "plan.json", command))
                if not crash.exists():  # the child writes it if it cannot set up the views
                    return ended
        return started(command)
