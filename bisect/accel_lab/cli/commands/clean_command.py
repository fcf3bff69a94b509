"""``accel-lab clean``: removes earlier runs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import click

from accel_lab.cli.commands.runs_command import KINDS, all_runs
from accel_lab.cli.options import MAX_DAYS, Number
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.places import state_folder
from accel_lab.execution.lending.server_client import end_left, left_folder
from accel_lab.execution.run_folder.lock import InUse, held, holder
from accel_lab.execution.run_folder.marker import objection


@click.command(name="clean")
@click.argument("runs", nargs=-1)
@click.option("--older-than", type=Number(0, MAX_DAYS), metavar="DAYS", help="Remove runs older than this.")
@click.option("--all", "everything", is_flag=True, help="Remove every kept run.")
@click.option("--servers", is_flag=True, help="End the warm servers that runs have left (--all does too).")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(
    runs: tuple[str, ...],
    older_than: float | None,
    everything: bool,
    servers: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Remove RUNS of any command (folders or names from `accel-lab list`), or runs by age. It asks first.

    Only folders that the lab made and marked as runs are removed. If one that you name is not such a folder,
    the exit code is 2 and nothing is removed.
    """
    if not runs and older_than is None and not everything and not servers:
        raise UsageError("say what to remove: names of runs, --older-than DAYS, --all or --servers")
    if (servers or everything) and not dry_run:
        ended = end_left(left_folder())
        if ended or servers:
            said = "ended the warm servers that runs had left" if ended else "there are no warm servers"
            click.echo(said)
    folders = [_folder(name) for name in runs]
    for row in all_runs(state_folder()):
        old = older_than is not None and time.time() - row["time"] > older_than * 86_400
        folder = Path(row["folder"])
        if not (everything or old) or folder in folders:
            continue
        if why := objection(folder):
            sys.stderr.write(f"kept {folder}: {why}\n")
        else:
            folders.append(folder)
    named = len(runs)
    folders = list(dict.fromkeys(folders))
    if not folders:
        click.echo("there is no such run: nothing to remove")
        return 0
    if not dry_run and not yes and not _agreed(folders):
        click.echo("nothing is removed")
        return 0
    for place, folder in enumerate(folders):
        try:
            _remove(folder, dry_run)
        except InUse as error:
            if place < named:
                raise
            sys.stderr.write(f"kept {folder}: {error}\n")
        else:
            click.echo(f"{'would remove' if dry_run else 'removed'} {folder}")
    return 0


def _agreed(folders: list[Path]) -> bool:
    """Lists the folders and asks the user; raises :class:`UsageError` without a terminal."""
    for folder in folders:
        sys.stderr.write(f"  {folder}\n")
    what = f"{len(folders)} run" + ("" if len(folders) == 1 else "s")
    if not can_ask():
        raise UsageError(f"no terminal to confirm on: add --yes to remove {what}")
    return click.confirm(f"Remove {what}?", default=False, err=True)


def can_ask() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin.isatty()


def _folder(name: str) -> Path:
    """Returns the folder of a run or benchmark, by path or by name among the kept ones."""
    places = [Path(name), *(state_folder() / kind / name for kind in KINDS)]
    folder = next((place for place in places if os.path.lexists(place)), None)
    if folder is None:
        raise UsageError(f"{name} is not a run: `accel-lab list` shows the kept ones")
    folder = Path(os.path.abspath(folder))
    if why := objection(folder):
        raise UsageError(f"{folder} is not removed: {why}")
    return folder


def _remove(folder: Path, dry_run: bool) -> None:
    """Removes a run, and ends the processes that a killed lab left there.

    Raises :class:`InUse` if a lab is running in it, and :class:`LabError` if part of it cannot be removed.
    """
    if dry_run:
        if line := holder(folder):
            raise InUse(line)
        return
    try:
        with held(folder):
            shutil.rmtree(folder)
    except OSError as error:
        raise LabError(
            f"{folder} was not removed as a whole: {error.strerror}: {error.filename or ''}"
        ) from None
