"""A triage's jobs on the workers of an engine: what of a script travels, and what its run says here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.files import remove
from accel_lab.engine.dispatch import Dispatch, EngineLost
from accel_lab.engine.job import BESIDE, CWD, PackedJob, Request, lab_identity
from accel_lab.engine.lab_command import newest_run
from accel_lab.engine.store import StoreLost

from .files import needed_beside, needed_from
from .jobs import DONE, Job, Result, error_result, read_result


class Remote:
    """Asks a job of the engine, in the thread that calls. ``torch`` is the version that workers must have.

    Raises :class:`EngineLost` and :class:`StoreLost`, which end the whole triage; what befalls one script
    alone is its result.
    """

    def __init__(self, dispatch: Dispatch, torch: str) -> None:
        self._dispatch, self._torch = dispatch, torch

    def __call__(self, job: Job) -> Result:
        folder = Path(job.folder)
        try:
            if not (folder / DONE).is_file():
                if folder.exists():  # half of an earlier fetching
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
    """The job with its files. The interpreter travels apart from the other options."""
    script = Path(job.script.path)
    python, options = _parted(job.options)
    files, cwd = files_of(script, Path(job.cwd))
    request = Request(
        words=("bisect", *options),
        script=f"{BESIDE}/{script.name}",
        cwd=cwd,
        python=python,
        torch=torch,
        lab=lab_identity(),
    )
    return PackedJob(request=request, files=files)


def files_of(script: Path, cwd: Path) -> tuple[dict[str, Path], str]:
    """The script and what it needs by their places in a pack, and the place that stands for ``cwd``."""
    files = {f"{BESIDE}/{name}": path for name, path in needed_beside(script).items()}
    files[f"{BESIDE}/{script.name}"] = script
    if cwd == script.parent:
        return files, BESIDE
    files.update({f"{CWD}/{name}": path for name, path in needed_from(cwd, script).items()})
    return files, CWD


def _parted(options: Sequence[str]) -> tuple[str, list[str]]:
    """The path that ``--python`` names, and the other options."""
    left = list(options)
    if "--python" not in left:
        return "", left
    place = left.index("--python")
    python = left[place + 1]
    del left[place : place + 2]
    return python, left
