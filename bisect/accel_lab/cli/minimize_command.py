"""``accel-lab minimize``: the smallest script and graph that still fail in the same way."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from accel_lab.cli.job import read_request, work
from accel_lab.cli.options import Duration, ProgramCommand, job_options, program_options
from accel_lab.core.errors import UsageError
from accel_lab.core.findings import Findings
from accel_lab.minimize.graphs import script_of_graph
from accel_lab.search.diagnosis import Options
from accel_lab.session import load_request, new_run_folder, state_folder


@click.command(name="minimize", cls=ProgramCommand)
@program_options
@job_options
@click.option(
    "--for",
    "minimize_for",
    type=Duration(),
    default="10m",
    show_default=True,
    help="Time to spend after the stage is known; the best so far is the result.",
)
def command(
    program: tuple[str, ...],
    module: str | None,
    python: str | None,
    timeout: float,
    memory: int,
    stdin: str | None,
    out: str | None,
    check: str | None,
    fail_regex: str | None,
    signed_zero: bool,
    cold: bool,
    keep: bool,
    bundle: bool,
    resume: str | None,
    package: str | None,
    jobs: int,
    as_json: bool,
    quiet: bool,
    minimize_for: float,
) -> int:
    """Shrink SCRIPT to the least that still fails at the same stage in the same way.

    Instead of SCRIPT a captured graph may be given: the JSON file of a run's capture folder. The stage is
    found first. Exit codes: 0 it does not fail, 1 it fails (a repro was written, or it is said why not),
    2 wrong usage, 3 the lab could not do it, 125 cannot tell, 130 interrupted: the best so far is kept.
    """
    if resume is not None:
        if program or module:
            raise UsageError("--resume takes the program from the run's folder: give no script")
        folder = Path(resume).resolve()
        request = load_request(folder)
    else:
        graph = Path(program[0]) if program and program[0].endswith(".json") else None
        if graph is not None:
            script = script_of_graph(graph, state_folder() / "graphs" / digest_of(graph))
            program = (str(script), *program[1:])
        request = read_request(
            program,
            module,
            python=python,
            timeout=timeout,
            memory=memory,
            stdin=stdin,
            out=out,
            check=check,
            fail_regex=fail_regex,
            signed_zero=signed_zero,
            cold=cold,
            jobs=jobs,
            package=package,
        )
        folder = new_run_folder(request)
    request = replace(request, options=Options(witness=False), minimize_s=minimize_for, keep=keep)
    return work(
        request, folder, bundle=bundle, as_json=as_json, quiet=quiet, command="minimize", show_text=_show
    )


def _show(findings: Findings) -> None:
    from accel_lab.reporting import terminal

    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    blocks = [terminal.paragraph(findings, colour=colour), terminal.repro_block(findings, colour=colour)]
    click.echo("\n\n".join(block for block in blocks if block))


def digest_of(path: Path) -> str:
    """A name for the folder of a graph's script: twelve hex digits over the file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}): name a graph<k>.json or a script"
        ) from None
