"""``accel-lab minimize``: finds the smallest script and graph that still fail in the same way."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.job import JobOptions, work
from accel_lab.cli.options import Duration, ProgramCommand, job_options, program_options
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.places import state_folder
from accel_lab.minimize.graphs import script_of_graph
from accel_lab.request import opened
from accel_lab.search.diagnosis import Options


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
def command(minimize_for: float, **words: Any) -> int:
    """Shrink SCRIPT to the smallest script that still fails at the same stage in the same way.

    SCRIPT may also be a captured graph: a JSON file of a run's capture folder. The stage is found first.

    Exit codes: 0 it does not fail, 1 it fails (a repro was written, or the output says why not), 2 wrong
    usage, 3 the lab could not do it, 125 cannot tell, 130 interrupted: the best so far is kept.
    """
    given = JobOptions(**words)
    run = given.earlier()
    if run is None:
        if given.program and given.program[0].endswith(".json"):
            graph = Path(given.program[0])
            script = script_of_graph(graph, state_folder() / "graphs" / digest_of(graph))
            given = replace(given, program=(str(script), *given.program[1:]))
        run = opened(given.request(), "minimize")
    request, folder = run
    request = replace(request, options=Options(witness=False), minimize_s=minimize_for)
    return work(given, request, folder, command="minimize", tables=False)


def digest_of(path: Path) -> str:
    """Returns twelve hex digits of the file's SHA-256, the folder name for a graph's script."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}): name a graph<k>.json or a script"
        ) from None
