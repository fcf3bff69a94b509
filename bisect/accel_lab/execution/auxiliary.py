"""Runs commands that are not probes, such as ``doctor``, in the same place and under the same limits."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accel_lab.core.errors import LabError, Unanswered
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.probe import Limits
from accel_lab.core.untrusted.child_files import ChildFiles

from .processes import process
from .run_folder.workspace import Workspace

TAIL_BYTES = 64 * 1024
Runner = Callable[..., process.ProcessExit]  # takes the arguments of process.run

#: File in an auxiliary command's folder that keeps how the command ended.
_ENDED = "ended.json"


class Interrupted(LabError):
    """The user asked to stop (exit code 130); the journal holds the results so far."""

    exit_code = 130


class AuxiliaryCommands:
    """Runs the child's other commands, and any command, with one interpreter.

    With ``replay`` nothing is run: a missing answer in the run's folder raises :class:`Unanswered`.
    """

    def __init__(
        self,
        *,
        python: str,
        workspace: Workspace,
        environment: Mapping[str, str],
        runner: Runner,
        stop: threading.Event,
        replay: bool,
    ) -> None:
        self._python = python
        self._workspace = workspace
        self._environment = environment
        self._runner = runner
        self._stop = stop
        self._replay = replay

    def ask(self, name: str, words: Sequence[str], *, timeout_s: float) -> str:
        """Returns what the child prints for the command ``words``; raises :class:`LabError` if it fails."""
        ended, folder = self.run(
            name, [self._python, str(self._workspace.library), *words], timeout_s=timeout_s
        )
        if ended.exit_code != 0:
            said = (ChildFiles(folder).tail("err.txt", TAIL_BYTES) or "").strip().splitlines()
            raise LabError(f"{name} failed in {self._python}: {(said or [str(ended.limit)])[-1][:200]}")
        return ChildFiles(folder).text("out.txt") or ""

    def run(self, name: str, command: Sequence[str], *, timeout_s: float) -> tuple[process.ProcessExit, Path]:
        """Runs a command and returns how it ended, and its folder with ``out.txt`` and ``err.txt``.

        Raises :class:`Interrupted` if it was stopped.
        """
        folder = auxiliary_folder(self._workspace.root, name)
        if self._replay:
            return _kept_end(folder, name), folder
        cwd = folder / "cwd"
        cwd.mkdir(exist_ok=True)
        try:
            ended = self._runner(
                list(command),
                cwd=cwd,
                env={**self._environment, "PYTHONDONTWRITEBYTECODE": "1", "PWD": str(cwd)},
                stdout=folder / "out.txt",
                stderr=folder / "err.txt",
                limits=Limits(timeout_s=timeout_s),
                marker=f"{name}-{uuid.uuid4().hex}",
                stop=self._stop,
            )
        finally:
            shutil.rmtree(cwd, ignore_errors=True)
        if ended.limit == "interrupted":
            raise Interrupted("interrupted")
        write_atomic(folder / _ENDED, json.dumps(ended.to_json()))
        return ended, folder


def auxiliary_folder(root: Path, name: str) -> Path:
    """Makes the folder of the auxiliary command ``name`` in the run folder ``root``."""
    folder = root / "asides" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept_end(folder: Path, name: str) -> process.ProcessExit:
    """Reads how an auxiliary command of an earlier run ended. Raises :class:`Unanswered` without a record."""
    try:
        return process.ProcessExit.from_json(json.loads((folder / _ENDED).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise Unanswered(f"the run's folder does not say how {name} ended") from None
