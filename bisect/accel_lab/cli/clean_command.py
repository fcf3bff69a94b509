"""``accel-lab clean``: remove runs that are no longer wanted."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import click

from accel_lab.cli.report_command import find_run
from accel_lab.cli.runs_command import all_runs, is_benchmark
from accel_lab.core.errors import LabError, UsageError
from accel_lab.execution.run_lock import InUse, held, holder
from accel_lab.request import state_folder


@click.command(name="clean")
@click.argument("runs", nargs=-1)
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Remove runs older than this."
)
@click.option("--all", "everything", is_flag=True, help="Remove every kept run.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def command(runs: tuple[str, ...], older_than: float | None, everything: bool, dry_run: bool) -> int:
    """Remove RUNS (folders or names from `accel-lab list`), or runs by age."""
    if not runs and older_than is None and not everything:
        raise UsageError("say what to remove: names of runs, --older-than DAYS or --all")
    folders: list[Path] = [_folder(name) for name in runs]
    for row in all_runs(state_folder()):
        old = older_than is not None and time.time() - row["time"] > older_than * 86_400
        if everything or old:
            folders.append(Path(row["folder"]))
    named = len(runs)
    for place, folder in enumerate(dict.fromkeys(folders)):
        try:
            _remove(folder, dry_run)
        except LabError as error:
            if place < named:
                raise
            click.echo(f"kept: {error}")
        else:
            click.echo(f"{'would remove' if dry_run else 'removed'} {folder}")
    return 0


def _remove(folder: Path, dry_run: bool) -> None:
    """Remove a run, with the processes that a killed lab left; raises LabError where one is at work in it."""
    if dry_run:
        if line := holder(folder):
            raise InUse(line)
        return
    with held(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _folder(name: str) -> Path:
    """The folder of a run or of a benchmark, by path or by name among the kept ones."""
    for folder in (Path(name), state_folder() / "bench" / name):
        if is_benchmark(folder):
            return folder.resolve()
    return find_run(name)
