"""``accel-lab run``: one run under one rung."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accel_lab.cli.job import run_once
from accel_lab.cli.options import ProgramCommand, program_options
from accel_lab.cli.streams import print_json
from accel_lab.core.judge import signature_of
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.outcome import Status
from accel_lab.core.stages import Rung
from accel_lab.reporting.schema import json_text

SCHEMA = "accel-lab/once/1"


@click.command(name="run", cls=ProgramCommand)
@program_options
@click.option("--rung", type=click.Choice([r.value for r in Rung]), default="kernel", show_default=True)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(rung: str, out: str | None, as_json: bool, **words: Any) -> int:
    """Run SCRIPT once, in a fresh process, under one rung of the ladder.

    What the script prints goes to files, unchanged; their paths are printed.

    Exit codes: 0 it ended well, 1 it failed, 2 wrong usage, 3 the lab could not do it.
    """
    asked = Rung(rung)
    # On the mock the layers are what a user wants to see, so they are written to the artifacts.
    switches = (("mock", {"files": True}),) if asked is Rung.MOCK else ()
    ran = run_once(command="run", **words, out=out, rung=asked, switches=switches, keep=True)
    outcome = ran.outcome
    signature = signature_of(outcome)
    summary = {
        "schema": SCHEMA,
        "program": ran.program.name,
        "torch": ran.build.torch or "",
        "rung": rung,
        "failed": signature.line if signature else "",
        "outcome": outcome.to_json(),
    }
    write_atomic(ran.workspace.root / "run.json", json_text(summary))
    if as_json:
        print_json(outcome.to_json())
    else:
        result = f"fails: {signature.line}" if signature else "passes"
        if not outcome.was_run:
            what = "not applicable" if outcome.status is Status.NOT_APPLICABLE else "refused"
            result = f"{what}: {'; '.join(outcome.notes)}"
        click.echo(f"{rung} on torch {ran.build.torch}: {result}  ({outcome.seconds:.1f} s)")
        for name in ("stdout.txt", "stderr.txt", "artifacts"):
            if (Path(outcome.folder) / name).exists():
                click.echo(f"  {Path(outcome.folder) / name}")
    if outcome.status is Status.REFUSED:
        return 3
    return int(signature is not None)
