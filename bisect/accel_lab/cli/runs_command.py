"""``accel-lab list``: the runs that are kept."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.session import state_folder


def kept_runs(base: Path) -> list[dict[str, Any]]:
    """Name, time, verdict and size of every run in a folder, newest first."""
    rows = []
    for folder in base.iterdir() if base.is_dir() else ():
        if not (folder / "request.json").is_file():
            continue
        report = _read(folder / "report.json")
        culprit = report.get("culprit") or {}
        rows.append(
            {
                "name": folder.name,
                "time": folder.stat().st_mtime,
                "verdict": report.get("verdict", "unfinished"),
                "stage": culprit.get("stage", ""),
                "mb": sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6,
            }
        )
    return sorted(rows, key=lambda row: -row["time"])


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


@click.command(name="list")
@click.option("--out", type=click.Path(file_okay=False), help="The folder that was given to bisect as --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def command(out: str | None, as_json: bool) -> int:
    """List earlier runs, newest first."""
    base = Path(out) if out else state_folder() / "runs"
    rows = kept_runs(base)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    elif not rows:
        click.echo(f"no runs in {base}")
    else:
        table = [
            [
                r["name"],
                time.strftime("%Y-%m-%d %H:%M", time.localtime(r["time"])),
                r["verdict"],
                r["stage"],
                f"{r['mb']:.1f}",
            ]
            for r in rows
        ]
        click.echo(tabulate(table, headers=["run", "time", "verdict", "stage", "MB"]))
    return 0
