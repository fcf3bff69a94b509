"""``accel-lab bisect``: the main job."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from accel_lab.cli.job import read_request, work
from accel_lab.cli.options import Duration, ProgramCommand, job_options, program_options
from accel_lab.core.errors import LabError, UsageError
from accel_lab.search.diagnosis import Options
from accel_lab.session import load_request, new_run_folder


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
    ablation: str,
    components: bool,
    cold: bool,
    keep: bool,
    bundle: bool,
    resume: str | None,
    package: str | None,
    minimize_for: float,
    no_minimize: bool,
    versions: str | None,
    jobs: int,
    exit_style: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Find the stage of the compiler at which SCRIPT fails.

    Exit codes: 0 it does not fail, 1 it fails and the culprit is named, 2 wrong usage, 3 the lab could
    not do it, 125 cannot tell, 130 interrupted.
    """
    try:
        if versions is not None:
            raise UsageError(
                "--versions is not built yet: only the interpreter given by --python is probed, one at a time"
            )
        if resume is not None:
            if program or module:
                raise UsageError("--resume takes the program from the run's folder: give no script")
            folder = Path(resume).resolve()
            request = load_request(folder)
        else:
            request = replace(
                read_request(
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
                ),
                options=Options(ablation=ablation, components=components),
                minimize_s=0.0 if no_minimize else minimize_for,
            )
            folder = new_run_folder(request)
        return work(replace(request, keep=keep), folder, bundle=bundle, as_json=as_json, quiet=quiet)
    except LabError as error:
        if exit_style == "git" and error.exit_code == 3:
            sys.stderr.write(f"accel-lab: {error}\n")
            return 125
        raise
