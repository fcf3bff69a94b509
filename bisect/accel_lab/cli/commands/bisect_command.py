"""``accel-lab bisect``: finds the stage and component at which a script fails."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click

from accel_lab.cli import internal_errors
from accel_lab.cli.engine_options import release_engine_option
from accel_lab.cli.environment_options import environment_options
from accel_lab.cli.job import JobOptions, read_line, work
from accel_lab.cli.options import Duration, ProgramCommand, job_options, program_options
from accel_lab.cli.release_cluster import cluster_of, keep_cluster, kept_cluster
from accel_lab.cli.streams import ReaderGone
from accel_lab.core.errors import UsageError
from accel_lab.request import opened
from accel_lab.search.diagnosis import Options
from accel_lab.search.timeline.metric_judge import METRICS, parse_worse_by


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
    metavar="NAME",
    help="Run every compiled region on this accelerator (the mock, or an adapter's): which part of it fails?",
)
@click.option(
    "--minimize-for",
    type=Duration(),
    default="120s",
    show_default=True,
    help="Time to spend on the smallest script and graph that still fail the same way.",
)
@click.option("--no-minimize", is_flag=True, help="Do not minimize anything.")
@click.option(
    "--workarounds-for",
    type=Duration(),
    help="Time to spend on workarounds, each run in your script. "
    "[default: under half of what the bisection took]",
)
@click.option("--no-workarounds", is_flag=True, help="Do not look for workarounds.")
@click.option(
    "--versions",
    metavar="SPEC",
    help="Also find the releases of torch that introduced and fixed the failure: 2.4..2.15, 2.6.0, "
    "all, minor, or some of them with commas between.",
)
@click.option(
    "--companions/--no-companions",
    default=True,
    help="At a flip, also swap numpy, triton and setuptools, so that torch is not blamed for them.",
)
@click.option(
    "--change/--no-change",
    default=False,
    help="With --versions: find the piece of torch's Python sources that makes the difference at each flip.",
)
@click.option(
    "--change-for",
    type=Duration(),
    default="10m",
    show_default=True,
    help="With --change: time to spend on each flip.",
)
@click.option(
    "--git",
    "clone",
    metavar="CLONE",
    help="With --change: a clone of PyTorch, to name the commits that touched the piece. Nothing is fetched.",
)
@environment_options
@release_engine_option
@click.option(
    "--metric",
    type=click.Choice(sorted(METRICS)),
    help="With --versions: look for a number that becomes worse, not for a failure.",
)
@click.option(
    "--worse-by",
    metavar="FACTOR",
    default="1.3x",
    show_default=True,
    help="With --metric: how much worse than at the oldest release counts, such as 1.3x or 30%.",
)
@click.option(
    "--budget",
    "budget_s",
    type=Duration(),
    help="Time for the whole bisection on one build; at its end the best answer so far is reported. "
    "[default: no limit for the stage, 12 plain runs for what follows it]",
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
    workarounds_for: float | None,
    no_workarounds: bool,
    versions: str | None,
    companions: bool,
    change: bool,
    change_for: float,
    clone: str | None,
    metric: str | None,
    worse_by: str,
    engine: str | None,
    budget_s: float | None,
    exit_style: str,
    **words: Any,
) -> int:
    """Find the stage of the compiler (or the part of an accelerator) at which SCRIPT fails.

    With --versions and --engine dask:ADDRESS the workers of a Dask cluster say which releases fail
    (docs/cluster.md).

    Exit codes: 0 it does not fail, 1 it fails and the culprit is named, 2 wrong usage, 3 the lab could
    not do it, 125 cannot tell, 130 interrupted.
    """
    given = JobOptions(**{field.name: words.pop(field.name) for field in fields(JobOptions)})
    try:
        run = given.earlier()
        if run is None:
            if versions is None and metric is not None:
                raise UsageError("--metric compares releases: name them with --versions")
            if versions is None and change:
                raise UsageError("--change compares two releases: name them with --versions")
            if clone is not None and not change:
                raise UsageError("--git names the commits of the change: ask for it with --change")
            if clone is not None and not Path(clone).is_dir():
                raise UsageError(f"--git: there is no folder {clone}")
            if versions is not None and budget_s is not None:
                raise UsageError(
                    "--budget is for the bisection on one build: give it without --versions, or name "
                    "fewer releases"
                )
            if versions is None and engine is not None:
                raise UsageError(
                    "--engine runs releases on a cluster: name them with --versions (many scripts: "
                    "accel-lab triage)"
                )
            if metric is not None and engine is not None:
                raise UsageError("--metric compares the numbers of one machine: leave out --engine")
            if versions is not None and accelerator:
                raise UsageError(
                    "--accelerator cannot be combined with --versions: use accel-lab matrix for both"
                )
            request = replace(
                given.request(),
                options=Options(ablation=ablation, components=components, time_s=budget_s),
                accelerator=accelerator or "",
                minimize_s=0.0 if no_minimize else minimize_for,
                workarounds_s=0.0 if no_workarounds else workarounds_for,
            )
            cluster = cluster_of(engine, words, request)
            if versions is not None:
                asked = read_line(versions, words, given, request)
                wanted = (metric, parse_worse_by(worse_by)) if metric is not None else None
                asked = replace(asked, companions=companions, metric=wanted)
                request = replace(
                    request,
                    versions=replace(
                        asked,
                        change_s=change_for if change else 0.0,
                        git=Path(clone).resolve() if clone is not None else None,
                    ),
                )
            run = opened(request)
            keep_cluster(cluster, run[1])
        else:
            cluster = kept_cluster(run[1], engine, words["store"])
            if budget_s is not None:
                run = replace(run[0], options=replace(run[0].options, time_s=budget_s)), run[1]
        return work(given, *run, cluster=cluster)
    except Exception as error:
        if exit_style != "git" or isinstance(error, (click.ClickException, click.Abort, ReaderGone)):
            raise
        said, code = internal_errors.explained(error)
        sys.stderr.write(f"accel-lab: {said}\n")
        return 125 if code == 3 else code
