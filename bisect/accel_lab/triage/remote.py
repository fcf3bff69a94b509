"""Runs a triage's jobs on the workers of an engine: packs each script, and reads its run here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.files import remove
from accel_lab.engine.dispatch import Dispatch, EngineLost
from accel_lab.engine.job import CWD, SCRIPT_FOLDER, PackedJob, Request, lab_identity
from accel_lab.engine.lab_command import newest_run
from accel_lab.engine.store import StoreLost

from .files import needed_beside, needed_from
from .jobs import DONE, Job, Result, error_result, read_result


class Remote:
    """Runs a job on the engine, in the calling thread. ``torch`` is the version that workers must have.

    Raises :class:`EngineLost` and :class:`StoreLost`, which end the whole triage; an error of a single script
    becomes its result.
    """

    def __init__(self, dispatch: Dispatch, torch: str) -> None:
        self._dispatch, self._torch = dispatch, torch

    def __call__(self, job: Job) -> Result:
        folder = Path(job.folder)
        try:
            if not (folder / DONE).is_file():
                if folder.exists():  # left by an interrupted fetch
                    remove(folder)
                self._dispatch.ask(packed(job, self._torch), job.script.name, folder)
                (folder / DONE).touch()
            run = newest_run(folder)
            if run is None:
                return error_result(job, "its bisection left no folder")
            return read_result(job, run)
        except (EngineLost, StoreLost):
            raise
        except (LabError, OSError) as error:
            return error_result(job, str(error))


def packed(job: Job, torch: str) -> PackedJob:
    """Packs the job with its files; the interpreter is not among the options but a field of the request."""
    script = Path(job.script.path)
    python, options = _parted(job.options)
    files, cwd = files_of(script, Path(job.cwd))
    request = Request(
        words=("bisect", *options),
        script=f"{SCRIPT_FOLDER}/{script.name}",
        cwd=cwd,
        python=python,
        torch=torch,
        lab=lab_identity(),
    )
    return PackedJob(request=request, files=files)


def files_of(script: Path, cwd: Path) -> tuple[dict[str, Path], str]:
    """Returns the script and its files by path in the pack, and the pack's path for ``cwd``."""
    files = {f"{SCRIPT_FOLDER}/{name}": path for name, path in needed_beside(script).items()}
    files[f"{SCRIPT_FOLDER}/{script.name}"] = script
    if cwd == script.parent:
        return files, SCRIPT_FOLDER
    files.update({f"{CWD}/{name}": path for name, path in needed_from(cwd, script).items()})
    return files, CWD


def _parted(options: Sequence[str]) -> tuple[str, list[str]]:
    left = list(options)
    if "--python" not in left:
        return "", left
    place = left.index("--python")
    python = left[place + 1]
    del left[place : place + 2]
    return python, left
