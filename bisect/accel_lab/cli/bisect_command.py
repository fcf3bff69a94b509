"""``accel-lab bisect``: the main job."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from accel_lab.cli.finish import exit_code, show, write_files
from accel_lab.cli.options import (
    ProgramCommand,
    find_python,
    limits_from,
    program_options,
    read_stdin,
    split_program,
)
from accel_lab.cli.progress import Progress
from accel_lab.core.errors import LabError, UsageError
from accel_lab.execution.prober import Interrupted
from accel_lab.lab import Oracle
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.search.diagnosis import Options
from accel_lab.session import Request, Session, load_request, new_run_folder, read_program


@click.command(name="bisect", cls=ProgramCommand)
@program_options
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Where to make the run's folder. [default: the user's data folder]",
)
@click.option(
    "--check",
    metavar="CMD",
    help="Judge each run by a shell command: exit 0 good, 125 cannot tell, else bad.",
)
@click.option("--fail-regex", metavar="RE", help="A run is bad if this matches what it printed.")
@click.option("--signed-zero", is_flag=True, help="Count -0.0 against 0.0 as a difference.")
@click.option(
    "--ablation",
    type=click.Choice(["short", "full"]),
    default="short",
    show_default=True,
    help="How many single switches to try in the kernel stage.",
)
@click.option("--components/--no-components", default=True, help="Also name the op or pass at fault.")
@click.option("--cold", is_flag=True, help="Run every probe in a fresh process, never in the warm server.")
@click.option("--keep", is_flag=True, help="Keep each probe's working directory and caches.")
@click.option("--bundle/--no-bundle", default=True, help="Write bundle.zip.")
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(exists=True, file_okay=False),
    help="Go on with an interrupted run's folder.",
)
@click.option(
    "--versions", metavar="SPEC", help="Releases of torch to search (not built yet: said so, exit code 2)."
)
@click.option("--jobs", type=click.IntRange(1, 16), default=2, show_default=True, help="Probes side by side.")
@click.option(
    "--exit-code",
    "exit_style",
    type=click.Choice(["lab", "git"]),
    default="lab",
    help="git: what the lab could not do becomes 125, for `git bisect run`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no tables.")
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
            script, args = split_program(module, program)
            _check_regex(fail_regex)
            request = Request(
                program=read_program(script, module, args),
                python=find_python(python),
                out=Path(out).resolve() if out else None,
                limits=limits_from(timeout, memory),
                oracle=Oracle(
                    check=check, fail_regex=fail_regex, comparison=ComparisonConfig(signed_zero=signed_zero)
                ),
                options=Options(ablation=ablation, components=components),
                cold=cold,
                stdin=read_stdin(stdin),
                workers=jobs,
                keep=keep,
            )
            folder = new_run_folder(request)
        return _bisect(replace(request, keep=keep), folder, bundle=bundle, as_json=as_json, quiet=quiet)
    except LabError as error:
        if exit_style == "git" and error.exit_code == 3:
            sys.stderr.write(f"accel-lab: {error}\n")
            return 125
        raise


def _check_regex(pattern: str | None) -> None:
    import re

    try:
        re.compile(pattern or "")
    except re.error as error:
        raise UsageError(f"--fail-regex is not a regular expression: {error}") from None


def _bisect(request: Request, folder: Path, *, bundle: bool, as_json: bool, quiet: bool) -> int:
    progress = Progress(quiet=quiet)
    session = Session(request, folder, progress)
    try:
        findings = session.run()
    except Interrupted:
        progress.done()
        sys.stderr.write(f"interrupted; go on with: accel-lab bisect --resume {folder}\n")
        if session.findings is not None and session.findings.baseline:
            write_files(session.findings, folder, bundle=False)
        return 130
    progress.done()
    write_files(findings, folder, bundle=bundle)
    show(findings, as_json=as_json, quiet=quiet)
    return exit_code(findings)
