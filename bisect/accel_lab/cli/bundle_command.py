"""``accel-lab bundle``: write an earlier run's bundle again, for instance under another size limit."""

from __future__ import annotations

from pathlib import Path

import click

from accel_lab.cli.finish import elsewhere, write_files
from accel_lab.cli.options import Number
from accel_lab.cli.rehearse import ship
from accel_lab.cli.report_command import find_run, only_read
from accel_lab.cli.streams import print_json
from accel_lab.execution.run_lock import held
from accel_lab.reporting.limits import LIMIT_BYTES


@click.command(name="bundle")
@click.argument("run")
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    help="Where to write it. [default: bundle.zip in the run's folder]",
)
@click.option("--limit-mb", type=Number(0.1, 1e6), default=LIMIT_BYTES / 1e6, show_default=True)
@click.option(
    "--verify",
    is_flag=True,
    help="Run it once from a clean folder first, which runs the program of RUN: only for a run of your own.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(run: str, output: str | None, limit_mb: float, verify: bool, as_json: bool) -> int:
    """Write the bundle of RUN (a folder, or a name from `accel-lab list`)."""
    folder = find_run(run)
    path = Path(output) if output else folder / "bundle.zip"
    with held(folder):
        with only_read(folder) as findings:
            write_files(findings, folder, bundle=False)
        made, told = ship(findings, folder, path, verify=verify, limit_bytes=int(limit_mb * 1e6))
    if as_json:
        dropped = [{"name": d.name, "why": d.reason} for d in made.dropped]
        report = {"path": str(path), "bytes": made.size, "sha256": made.sha256, "dropped": dropped}
        told_of = {"redactions": made.redactions, "warnings": [*elsewhere(made), *made.warnings]}
        print_json({**report, **told_of, "check": told.to_json()})
        return 0
    click.echo(f"{path}  {made.size / 1e6:.2f} MB, {len(made.files)} files, {made.redactions} replacements")
    click.echo(f"  {told.words}")
    for d in made.dropped:
        click.echo(f"  left out: {d.name} ({d.reason})")
    for warning in [*elsewhere(made), *made.warnings]:
        click.echo(f"  note: {warning}")
    return 0
