"""``accel-lab list``: lists the kept runs of every command."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.cli.streams import print_json
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.places import state_folder
from accel_lab.core.text import shorten
from accel_lab.execution.run_folder.lock import user_of
from accel_lab.execution.run_folder.marker import is_marked, made_by
from accel_lab.reporting.runs.kept_run import RUNNING, UNFINISHED, kept_run

#: Folders below the user's data folder; ``runs`` holds every command but bench and demo.
KINDS = ("runs", "bench", "demo")
_MOST_WORDS = 70


def all_runs(home: Path) -> list[dict[str, Any]]:
    """Lists the kept runs of every kind below the user's data folder, newest first."""
    rows = [row for kind in KINDS for row in kept_runs(home / kind)]
    return sorted(rows, key=lambda row: -row["time"])


def kept_runs(base: Path) -> list[dict[str, Any]]:
    """Lists the runs in a folder (name, kind, time, verdict, size, folder), newest first."""
    found = [row for folder in (base.iterdir() if base.is_dir() else ()) if (row := described(folder))]
    for row in found:
        if row["verdict"] == UNFINISHED and user_of(Path(row["folder"])) is not None:
            row["verdict"] = RUNNING
    return sorted(found, key=lambda row: -row["time"])


def described(folder: Path) -> dict[str, Any] | None:
    """Returns the row of one run, or None if the folder is not a run."""
    if folder.is_symlink() or not folder.is_dir():
        return None
    made = made_by(folder)
    run = kept_run(folder, made)
    if run is not None:
        kind, verdict, stage = run.kind, run.verdict, run.stage
    elif is_benchmark(folder):
        kind, verdict, stage = "bench", UNFINISHED, ""
    elif is_marked(folder):
        kind, verdict, stage = made or "once", "-" if made == "demo" else UNFINISHED, ""
    else:
        return None
    return {
        "name": folder.name,
        "time": folder.stat().st_mtime,
        "kind": kind,
        "verdict": verdict,
        "stage": stage,
        "mb": sum(_size(path) for path in folder.rglob("*")) / 1e6,
        "folder": str(folder),
    }


def is_benchmark(folder: Path) -> bool:
    """Whether ``accel-lab bench`` made the folder, finished or not."""
    return folder.name.startswith("bench-") and (
        (folder / "bench.json").is_file() or (folder / "rows").is_dir()
    )


def _size(path: Path) -> int:
    try:
        state = path.lstat()
    except OSError:
        return 0
    return state.st_size if stat.S_ISREG(state.st_mode) else 0


@click.command(name="list")
@click.option(
    "--out", type=click.Path(file_okay=False), help="The folder that was given to a command as --out."
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def command(out: str | None, as_json: bool) -> int:
    """List earlier runs of every command, newest first."""
    home = Path(out) if out else state_folder()
    if out and not home.is_dir():
        raise UsageError(f"there is no folder {out}: name the one that was given as --out")
    rows = kept_runs(home) if out else all_runs(home)
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(f"no runs in {home}")
    else:
        table = [
            [
                r["name"],
                r["kind"],
                time.strftime("%Y-%m-%d %H:%M", time.localtime(r["time"])),
                shorten(r["verdict"], _MOST_WORDS),
                r["stage"],
                f"{r['mb']:.1f}",
            ]
            for r in rows
        ]
        click.echo(tabulate(table, headers=["run", "kind", "time", "verdict", "stage", "MB"]))
    return 0
