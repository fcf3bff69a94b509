"""``accel-lab run``: one run under one rung, for a look by hand."""

from __future__ import annotations

import json
from pathlib import Path

import click

from accel_lab.cli.options import (
    ProgramCommand,
    find_python,
    limits_from,
    program_options,
    read_stdin,
    split_program,
)
from accel_lab.core.judge import signature_of
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober
from accel_lab.execution.workspace import Workspace
from accel_lab.session import Request, inspect_build, new_run_folder, read_program


@click.command(name="run", cls=ProgramCommand)
@program_options
@click.option("--rung", type=click.Choice([r.value for r in Rung]), default="kernel", show_default=True)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(
    program: tuple[str, ...],
    module: str | None,
    python: str | None,
    timeout: float,
    memory: int,
    stdin: str | None,
    rung: str,
    out: str | None,
    as_json: bool,
) -> int:
    """Run SCRIPT once, in a fresh process, under one rung of the ladder.

    Exit codes: 0 it ended well, 1 it failed, 2 wrong usage, 3 the lab could not do it.
    """
    script, args = split_program(module, program)
    request = Request(
        program=read_program(script, module, args),
        python=find_python(python),
        out=Path(out).resolve() if out else None,
    )
    folder = new_run_folder(request)
    build = inspect_build(request.python, folder)
    probe = Probe(
        program=request.program,
        rung=Rung(rung),
        environment=f"{build.python} torch {build.torch}",
        limits=limits_from(timeout, memory),
        cold=True,
    )
    workspace = Workspace(folder, Path.cwd())
    with Prober(python=build.python, workspace=workspace, stdin=read_stdin(stdin), keep=True) as prober:
        outcome = prober.ask(probe)
    signature = signature_of(outcome)
    if as_json:
        click.echo(json.dumps(outcome.to_json(), indent=1, default=str))
    else:
        told = f"fails: {signature.line}" if signature else "passes"
        if outcome.status.value in ("not_applicable", "refused"):
            told = f"not applicable: {'; '.join(outcome.notes)}"
        click.echo(f"{rung} on torch {build.torch}: {told}  ({outcome.seconds:.1f} s)")
        for name in ("stdout.txt", "stderr.txt", "artifacts"):
            if (Path(outcome.folder) / name).exists():
                click.echo(f"  {Path(outcome.folder) / name}")
    return int(signature is not None)
