"""``accel-lab bisect``: the main job."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from accel_lab.cli.job import Given, work
from accel_lab.cli.options import Duration, ProgramCommand, job_options, program_options
from accel_lab.core.errors import LabError, UsageError
from accel_lab.search.diagnosis import Options
from accel_lab.session import new_run_folder


@click.command(name="bisect", cls=ProgramCommand)
@program_options
@job_options
@click.option(
    "--ablation",
    type=click.Choice(["short", "full"]),
    default="short",
    show_default=True,
    help="How many single switches to try in the kernel stage.",
)
@click.option("--components/--no-components", default=True, help="Also name the op or pass at fault.")
@click.option(
    "--accelerator",
    type=click.Choice(["mock"]),
    help="Run every compiled region on this accelerator, and tell its front end from its back end.",
)
@click.option(
    "--minimize-for",
    type=Duration(),
    default="120s",
    show_default=True,
    help="Time to spend on the smallest script and graph that still fail the same way.",
)
@click.option("--no-minimize", is_flag=True, help="Do not shrink anything.")
@click.option(
    "--versions", metavar="SPEC", help="Releases of torch to search (not built yet: said so, exit code 2)."
)
@click.option(
    "--exit-code",
    "exit_style",
    type=click.Choice(["lab", "git"]),
    default="lab",
    help="git: what the lab could not do becomes 125, for `git bisect run`.",
)
def command(
    ablation: str,
    components: bool,
    accelerator: str | None,
    minimize_for: float,
    no_minimize: bool,
    versions: str | None,
    exit_style: str,
    **words: Any,
) -> int:
    """Find the stage of the compiler (or the part of an accelerator) at which SCRIPT fails.

    Exit codes: 0 it does not fail, 1 it fails and the culprit is named, 2 wrong usage, 3 the lab could
    not do it, 125 cannot tell, 130 interrupted.
    """
    given = Given(**words)
    try:
        if versions is not None:
            raise UsageError(
                "--versions is not built yet: only the interpreter given by --python is probed, one at a time"
            )
        run = given.earlier()
        if run is None:
            request = replace(
                given.request(),
                options=Options(ablation=ablation, components=components),
                accelerator=accelerator or "",
                minimize_s=0.0 if no_minimize else minimize_for,
            )
            run = request, new_run_folder(request)
        return work(given, *run)
    except LabError as error:
        if exit_style == "git" and error.exit_code == 3:
            sys.stderr.write(f"accel-lab: {error}\n")
            return 125
        raise
