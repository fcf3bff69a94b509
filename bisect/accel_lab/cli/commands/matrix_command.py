"""``accel-lab matrix``: runs every rung on every release, and writes a table, a page and a picture."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.engine_options import Cluster, release_engine_option
from accel_lab.cli.environment_options import environment_options
from accel_lab.cli.job import JobOptions, read_line, resumable
from accel_lab.cli.options import ProgramCommand, job_options, program_options
from accel_lab.cli.progress import Progress
from accel_lab.cli.release_cluster import (
    cluster_of,
    keep_cluster,
    kept_cluster,
    read_failure,
    releases,
    write_judged,
)
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.stages import LADDER, TORCH_RUNGS, Rung
from accel_lab.core.text import command_line
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.execution.processes.interruptible import Interruptible
from accel_lab.execution.programs import must_run_cold
from accel_lab.execution.run_folder.lock import held
from accel_lab.request import Request, opened
from accel_lab.versions.build_verdict import TargetFailure
from accel_lab.versions.grid import Column, GridRun, columns_of
from accel_lab.versions.line import ReleaseLine, VersionsRequest
from accel_lab.versions.release_judge import ReleaseJudge
from accel_lab.versions.release_session import Setting
from accel_lab.versions.remote_release import RemoteReleases

_RUNGS = [rung.value for rung in TORCH_RUNGS]


@dataclass(frozen=True, kw_only=True)
class MatrixRequest:
    """What to do on each release: run ``columns`` (given as options: ``words``), or judge it by ``target``.

    With ``required`` it is an error if no release is available.
    """

    columns: tuple[Column, ...]
    words: tuple[str, ...] = ()
    target: TargetFailure | None = None
    required: bool = False
    cluster: Cluster | None = None


@click.command(name="matrix", cls=ProgramCommand)
@program_options
@job_options
@click.option(
    "--versions",
    metavar="SPEC",
    help="Releases of torch: 2.4..2.15, 2.6.0, all, minor, or some of them with commas between.",
)
@environment_options
@release_engine_option
@click.option(
    "--rungs",
    metavar="NAMES",
    help=f"Rungs to run, with commas between. [default: {','.join(r.value for r in LADDER)}]",
)
@click.option(
    "--accelerator",
    "accelerators",
    metavar="NAME",
    multiple=True,
    help="Also run every compiled region on this accelerator (the mock, or an adapter's); may be repeated.",
)
@click.option(
    "--failure",
    hidden=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Judge each release by this failure, as bisect --versions does, and run no rungs.",
)
@click.option(
    "--require-releases", is_flag=True, hidden=True, help="It is an error if none of them is available."
)
def command(
    versions: str | None,
    engine: str | None,
    rungs: str | None,
    accelerators: tuple[str, ...],
    failure: str | None,
    require_releases: bool,
    **words: Any,
) -> int:
    """Run SCRIPT on every release of a line, on every rung of the ladder.

    With --engine dask:ADDRESS each release is run by a worker of a Dask cluster (docs/cluster.md).

    Exit codes: 0 no cell shows a failure, 1 some do, 2 wrong usage, 3 the lab could not do it, 125 no
    release could be judged, 130 interrupted.
    """
    given = JobOptions(**{field.name: words.pop(field.name) for field in fields(JobOptions)})
    earlier = given.earlier()
    if earlier is None:
        if versions is None:
            raise UsageError("name releases of torch: --versions 2.6..2.9, all, or minor")
        request = given.request()
        cluster = cluster_of(engine, words, request)
        asked = read_line(versions, words, given, request)
        request, folder = opened(replace(request, versions=asked), "matrix")
        keep_cluster(cluster, folder)
        failure = str(Path(failure).resolve()) if failure else None
        what = {
            "rungs": rungs,
            "accelerators": accelerators,
            "failure": failure,
            "required": require_releases,
        }
        write_atomic(folder / "request.json", json.dumps({**request.to_json(), **what, "matrix": True}))
    else:
        request, folder = earlier
        if request.versions is None:
            raise UsageError(f"{folder} is not the folder of a matrix: go on with accel-lab bisect --resume")
        asked = request.versions
        kept = json.loads((folder / "request.json").read_text(encoding="utf-8"))
        rungs, accelerators = kept.get("rungs"), tuple(kept.get("accelerators", ()))
        failure, require_releases = kept.get("failure"), bool(kept.get("required"))
        cluster = kept_cluster(folder, engine, words["store"])
    wanted = MatrixRequest(
        columns=columns_of(_rungs(rungs), accelerators),
        target=read_failure(Path(failure)) if failure else None,
        required=require_releases,
        cluster=cluster,
        words=_words(rungs, accelerators),
    )
    with resumable(folder, "matrix"), held(folder):
        return _run(given, request, asked, folder, wanted)


def _words(rungs: str | None, accelerators: Sequence[str]) -> tuple[str, ...]:
    named = [word for name in accelerators for word in ("--accelerator", name)]
    return (*(("--rungs", rungs) if rungs else ()), *named)


def _rungs(named: str | None) -> list[Rung]:
    if named is None:
        return list(LADDER)
    names = [name.strip() for name in named.split(",") if name.strip()]
    wrong = [name for name in names if name not in _RUNGS]
    if wrong or not names:
        raise UsageError(f"--rungs {named}: the rungs are {', '.join(_RUNGS)}")
    # A verdict needs the uncompiled run and the full compile.
    wanted = {*names, Rung.UNCOMPILED.value, Rung.KERNEL.value}
    return [Rung(name) for name in _RUNGS if name in wanted]


def _run(
    given: JobOptions, request: Request, asked: VersionsRequest, folder: Path, wanted: MatrixRequest
) -> int:
    progress = Progress(quiet=given.quiet, program=request.program.path, folder=folder)
    began = time.monotonic()
    with (
        releases(
            wanted.cluster,
            request,
            folder,
            command="matrix",
            more=wanted.words,
            listener=lambda line: progress.say(f"… {line}"),
        ) as remote,
        ReleaseLine(
            asked, _setting(given, request, folder, progress, remote), listener=progress.release
        ) as line,
    ):
        if wanted.target is not None:
            return _judged(line, wanted, wanted.target, folder, progress)
        run = GridRun(
            line.sessions,
            line.line,
            wanted.columns,
            side_by_side=line.side_by_side,
            listener=progress.release,
        )
        stopped = False
        with Interruptible([line.interrupt]):
            try:
                run.run()
            except Interrupted:
                stopped = True
        progress.done()
        notes = [*line.notes, *(["stopped before the end"] if stopped else [])]
        grid = run.to_json(request.program, seconds=time.monotonic() - began, notes=notes)
    _write(grid, folder)
    if stopped:
        again = command_line("accel-lab", "matrix", "--resume", folder)
        sys.stderr.write(f"interrupted; go on with: {again}\n")
        return 130
    if wanted.required and len(run.grid.missing) == len(line.line):
        raise LabError("; ".join(run.grid.missing.values()))
    _show(given, grid, folder)
    return _exit_code(grid)


def _setting(
    given: JobOptions, request: Request, folder: Path, progress: Progress, remote: RemoteReleases | None
) -> Setting:
    return Setting(
        program=request.program,
        folder=folder,
        limits=request.limits,
        oracle=request.oracle,
        stdin=request.stdin,
        cold="cold runs were requested" if request.cold else must_run_cold(request.program),
        workers=request.workers,
        keep=given.keep,
        listener=progress,
        servers=given.servers(),
        remote=remote,
    )


def _judged(
    line: ReleaseLine, wanted: MatrixRequest, target: TargetFailure, folder: Path, progress: Progress
) -> int:
    """Judges each release by a failure and writes the rows for the lab that sent the job."""
    with (
        ReleaseJudge(
            line.sessions, target, side_by_side=line.side_by_side, listener=progress.release
        ) as judge,
        Interruptible([line.interrupt]),
    ):
        rows = [job.result() for job in [judge.submit(version) for version in line.line]]
    progress.done()
    if wanted.required and not any(row.environment for row in rows):
        raise LabError("; ".join(row.why for row in rows))
    write_judged(folder, rows)
    verdicts = {row.verdict for row in rows}
    return 1 if Verdict.BAD in verdicts else 0 if Verdict.GOOD in verdicts else 125


def _write(grid: dict[str, Any], folder: Path) -> None:
    from accel_lab.reporting.page import matrix, matrix_plot
    from accel_lab.reporting.schema import json_text

    write_atomic(folder / "matrix.json", json_text(grid))
    picture = matrix_plot.png(grid)
    (folder / "matrix.png").write_bytes(picture)
    matrix.write(grid, picture, folder / "matrix.html")


def _show(given: JobOptions, grid: dict[str, Any], folder: Path) -> None:
    from accel_lab.reporting.schema import json_text
    from accel_lab.reporting.tables import matrix

    if given.as_json:
        click.echo(json_text(grid), nl=False)
        return
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = min(shutil.get_terminal_size((100, 24)).columns, 140)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
    click.echo(matrix.text(grid, colour=colour, unicode=unicode, width=width))
    click.echo(f"\n{grid['probes']} probes in {grid['seconds']['total']:.0f} s")
    for name in ("matrix.html", "matrix.png", "matrix.json"):
        click.echo(f"{name:11s} {folder / name}")


def _exit_code(grid: dict[str, Any]) -> int:
    from accel_lab.reporting.words import matrix

    return {"bad": 1, "good": 0}.get(matrix.mark_of(grid).name, 125)
