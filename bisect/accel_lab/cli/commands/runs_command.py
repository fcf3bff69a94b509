"""``accel-lab list``: the runs that are kept, of bisections and of benchmarks."""

from __future__ import annotations

import json
import stat
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.cli.streams import print_json
from accel_lab.execution.programs import CAPSULE
from accel_lab.execution.run_folder.marker import is_marked
from accel_lab.request import state_folder
from accel_lab.triage.triage import REQUEST as TRIAGE_REQUEST
from accel_lab.triage.triage import TRIAGE

#: Below the user's data folder: what bisections and recordings leave, what ``accel-lab bench`` and
#: ``accel-lab triage`` do.
KINDS = ("runs", "bench", "triage")
_MAX_BYTES = 100_000_000


def all_runs(home: Path) -> list[dict[str, Any]]:
    """The kept runs of every kind below the user's data folder, newest first."""
    rows = [row for kind in KINDS for row in kept_runs(home / kind)]
    return sorted(rows, key=lambda row: -row["time"])


def kept_runs(base: Path) -> list[dict[str, Any]]:
    """Name, kind, time, verdict, size and folder of every run in a folder, newest first."""
    rows = []
    for folder in base.iterdir() if base.is_dir() else ():
        if (folder / "request.json").is_file():
            summary = _bisection(folder)
        elif is_benchmark(folder):
            summary = _benchmark(folder)
        elif (folder / TRIAGE_REQUEST).is_file():
            summary = _triage(folder)
        elif (folder / "record.json").is_file():
            capsules = [*(folder / "capsules").glob(f"**/{CAPSULE}")]
            kept = f"{len(capsules)} capsule{'' if len(capsules) == 1 else 's'}"
            summary = {"kind": "record", "verdict": kept, "stage": ""}
        elif is_marked(folder):  # of `run` or `check`
            summary = {"kind": "once", "verdict": "", "stage": ""}
        else:
            continue
        rows.append(
            {
                "name": folder.name,
                "time": folder.stat().st_mtime,
                **summary,
                "mb": sum(_size(path) for path in folder.rglob("*")) / 1e6,
                "folder": str(folder),
            }
        )
    return sorted(rows, key=lambda row: -row["time"])


def is_benchmark(folder: Path) -> bool:
    """Whether ``accel-lab bench`` made a folder, to the end or not."""
    return folder.name.startswith("bench-") and (
        (folder / "bench.json").is_file() or (folder / "rows").is_dir()
    )


def _bisection(folder: Path) -> dict[str, Any]:
    grid = _read(folder / "matrix.json")
    if grid:
        sentences = grid.get("sentences", ())
        said = [str(line) for line in sentences] if isinstance(sentences, list) else []
        return {"kind": "matrix", "verdict": "; ".join(said), "stage": ""}
    report = _read(folder / "report.json")
    culprit = report.get("culprit")
    return {
        "kind": "bisect",
        "verdict": str(report.get("verdict", "unfinished")),
        "stage": str(culprit.get("stage", "")) if isinstance(culprit, dict) else "",
    }


def _benchmark(folder: Path) -> dict[str, Any]:
    """The rows of a benchmark by their standing, as its verdict."""
    found = _read(folder / "bench.json")
    rows = found.get("rows")
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    counts = Counter(str(row.get("standing", "")) for row in rows)
    verdict = ", ".join(f"{count} {standing}" for standing, count in sorted(counts.items()))
    return {"kind": "bench", "verdict": verdict if found.get("complete") else "unfinished", "stage": ""}


def _triage(folder: Path) -> dict[str, Any]:
    """How many scripts and faults a triage found."""
    found = _read(folder / TRIAGE)
    scripts, faults = found.get("scripts"), found.get("faults")
    verdict = "unfinished"
    if isinstance(scripts, list) and isinstance(faults, list):
        verdict = f"{len(scripts)} scripts, faults: {len(faults)}"
    return {"kind": "triage", "verdict": verdict, "stage": ""}


def _size(path: Path) -> int:
    """Bytes of a regular file; 0 for all else."""
    try:
        state = path.lstat()
    except OSError:
        return 0
    return state.st_size if stat.S_ISREG(state.st_mode) else 0


def _read(path: Path) -> dict[str, Any]:
    """A file that a run may have written, or a script in its place: never waited for, never huge."""
    if not 0 < _size(path) <= _MAX_BYTES:
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


@click.command(name="list")
@click.option(
    "--out", type=click.Path(file_okay=False), help="The folder that was given to bisect or bench as --out."
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def command(out: str | None, as_json: bool) -> int:
    """List earlier runs of bisect and bench, newest first."""
    home = Path(out) if out else state_folder()
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
                r["verdict"],
                r["stage"],
                f"{r['mb']:.1f}",
            ]
            for r in rows
        ]
        click.echo(tabulate(table, headers=["run", "kind", "time", "verdict", "stage", "MB"]))
    return 0
