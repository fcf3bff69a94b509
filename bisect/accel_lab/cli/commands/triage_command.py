"""``accel-lab triage``: bisects many scripts and groups the failures into distinct faults."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.engine_options import CLUSTER_JOBS, chosen, dispatching
from accel_lab.cli.options import MAX_SECONDS, Duration, Number, find_python
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.machine.places import state_folder
from accel_lab.core.text import command_line, counted, printable, shorten
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.engine.dispatch import INTERRUPTED, EngineLost
from accel_lab.engine.store import StoreLost
from accel_lab.engine.worker import torch_of
from accel_lab.execution.processes.interruptible import Interruptible
from accel_lab.execution.run_folder.lock import held
from accel_lab.reporting.page import triage as page
from accel_lab.reporting.schema import json_text
from accel_lab.reporting.words import triage as words
from accel_lab.request import new_folder
from accel_lab.triage.jobs import ERROR, Job, Result, run_job
from accel_lab.triage.remote import Remote
from accel_lab.triage.scripts import find_scripts
from accel_lab.triage.triage import (
    REQUEST,
    TRIAGE,
    EngineReport,
    Plan,
    compared,
    kept_results,
    last_triage,
    run,
)

_REQUEST = {"place": str, "cwd": str, "options": [str], "engine?": str, "store?": str}
#: Most parallel bisections on this machine.
MOST_LOCAL = 64


@click.command(name="triage")
@click.argument("place", required=False, type=click.Path(exists=True))
@click.option("--python", metavar="PATH", help="The interpreter to bisect on. [default: this one]")
@click.option(
    "--versions",
    metavar="SPEC",
    help="Also follow each failure over these releases of torch, as bisect does.",
)
@click.option(
    "--timeout",
    type=Number(1, MAX_SECONDS),
    default=300.0,
    show_default=True,
    help="Seconds for one run of a script.",
)
@click.option("--budget", "budget_s", type=Duration(), help="Time for each script, as bisect takes it.")
@click.option(
    "--minimize-for",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Time to minimize each failing script; 0: not done.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    help="Bisections in parallel; for a cluster, how many are submitted at a time. [default: 2; 128]",
)
@click.option(
    "--engine",
    metavar="ENGINE",
    help="Where to bisect: local, or dask:ADDRESS, the scheduler of a cluster. [default: local]",
)
@click.option(
    "--store",
    metavar="URL",
    help="For a cluster: a folder that its workers reach too, as file:///shared/lab or s3://bucket/lab.",
)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the folder of the triage.")
@click.option(
    "--resume",
    metavar="TRIAGE",
    type=click.Path(exists=True, file_okay=False),
    help="Go on with the folder of a triage that was cut off.",
)
@click.option("--fresh", is_flag=True, help="Reuse no answer of an earlier triage of the same place.")
@click.option("--json", "as_json", is_flag=True, help="Print the triage as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    place: str | None,
    python: str | None,
    versions: str | None,
    timeout: float,
    budget_s: float | None,
    minimize_for: float,
    jobs: int | None,
    engine: str | None,
    store: str | None,
    out: str | None,
    resume: str | None,
    fresh: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Bisect every script of PLACE, and group the failures into distinct faults.

    PLACE is a folder of scripts (or of capsules), or a file with one script a line. A script whose content
    was bisected before, in the last triage of the same place with the same options, is not run again.

    With --engine dask:ADDRESS the workers of a Dask cluster bisect (docs/cluster.md).

    Exit codes: 0 no script fails, 1 some do, 2 wrong usage, 3 the lab could not bisect any, 125 none could be
    judged, 130 interrupted.
    """
    base = Path(out).resolve() if out else state_folder() / "runs"
    if resume is not None:
        if place is not None:
            raise UsageError("--resume takes the scripts from the triage's folder: name no place")
        folder = Path(resume).resolve()
        asked = _earlier(folder)
        asked.update({"engine": engine} if engine is not None else {})
        asked.update({"store": store} if store is not None else {})
    else:
        if place is None:
            raise UsageError("name a folder of scripts, or a file that lists them: accel-lab triage PLACE")
        asked = {
            "place": str(Path(place).resolve()),
            "cwd": os.getcwd(),
            "options": _options(find_python(python), versions, timeout, budget_s, minimize_for),
        }
        if chosen(engine, store) is not None:
            asked.update(engine=engine, store=store)
        find_scripts(Path(asked["place"]))  # fails early, before a folder is made
        folder = new_folder(base, "triage", "triage folder", "triage")
        write_atomic(folder / REQUEST, json.dumps(asked, indent=1))
    with held(folder):
        return _run(asked, folder, base, jobs, fresh=fresh, as_json=as_json, quiet=quiet)


def _options(
    python: str, versions: str | None, timeout: float, budget_s: float | None, minimize_for: float
) -> list[str]:
    options = ["--python", python, "--timeout", f"{timeout:g}", "--jobs", "1", "--no-verify", "--quiet"]
    options += ["--versions", versions] if versions else []
    options += ["--budget", f"{budget_s:g}"] if budget_s is not None else []
    return [*options, *(["--minimize-for", f"{minimize_for:g}"] if minimize_for else ["--no-minimize"])]


def _earlier(folder: Path) -> dict[str, Any]:
    try:
        asked = ChildFiles(folder).json(REQUEST, _REQUEST)
    except UntrustedFileError as error:
        raise UsageError(f"{folder / REQUEST} is damaged ({error}): start a new triage") from None
    if asked is None:
        raise UsageError(f"{folder} is not the folder of a triage: it holds no {REQUEST}")
    return dict(asked)


def _run(
    asked: dict[str, Any],
    folder: Path,
    base: Path,
    jobs: int | None,
    *,
    fresh: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    cluster = chosen(asked.get("engine"), asked.get("store"))
    if cluster is None and (jobs or 0) > MOST_LOCAL:
        raise UsageError(f"--jobs {jobs}: this machine runs at most {MOST_LOCAL} in parallel")
    found = find_scripts(Path(asked["place"]))
    options = tuple(asked["options"])
    plan = Plan(place=asked["place"], folder=folder, cwd=asked["cwd"], options=options, found=found)
    others = [other for other in base.glob("*") if other.is_dir() and other != folder]
    earlier = last_triage(others, plan.place)
    known = kept_results(folder)
    if earlier is not None and not fresh:
        known = {**kept_results(earlier), **known}
    tell = _Teller(quiet)
    stop = threading.Event()
    report = EngineReport(name=cluster.name if cluster else "local", store=cluster.store if cluster else "")
    with ExitStack() as open_:
        ask, stops = _asker(stop), [stop.set]
        if cluster is not None:

            def fault(line: str) -> None:
                report.faults.append(line)
                tell.line(line)

            dispatch = open_.enter_context(dispatching(cluster, fault))
            ask = Remote(dispatch, torch_of(_python(options)))
            stops.append(dispatch.stop)
        workers = jobs or (CLUSTER_JOBS if cluster else 2)
        engine = open_.enter_context(ThreadPoolExecutor(max_workers=workers, thread_name_prefix="job"))
        open_.enter_context(Interruptible(stops))
        try:
            triage = run(plan, engine, ask, known=known, listener=tell.result, engine=report)
        except (EngineLost, StoreLost) as error:
            raise type(error)(_cut_off(error, plan)) from None
    if stop.is_set():
        again = command_line("accel-lab", "triage", "--resume", folder)
        sys.stderr.write(f"interrupted; go on with: {again}\n")
        return 130
    triage = compared(triage, earlier)
    write_atomic(folder / TRIAGE, json_text(triage))
    page.write(triage, folder)
    if as_json:
        print_json(triage)
    else:
        lines = [*words.lines_of(triage), "", f"page    {folder / 'triage.html'}", f"folder  {folder}"]
        click.echo("\n".join(printable(line) for line in lines))
    return _exit_code(triage)


def _asker(stop: threading.Event) -> Callable[[Job], Result]:
    """Returns the function that runs a job; it starts none after the user stopped the triage."""

    def ask(job: Job) -> Result:
        if stop.is_set():
            return Result(key=job.key, script=job.script, verdict=ERROR, said=INTERRUPTED)
        return run_job(job, stop)

    return ask


def _python(options: Sequence[str]) -> str:
    return options[options.index("--python") + 1]


def _cut_off(error: LabError, plan: Plan) -> str:
    """Returns the message for a lost engine or store: how many results are kept, and how to resume."""
    known = kept_results(plan.folder)
    answered = sum(job.key in known for job in plan.jobs)
    again = command_line("accel-lab", "triage", "--resume", plan.folder)
    return f"{error}; {answered} of {counted(len(plan.jobs), 'bisection')} are kept. Go on with: {again}"


class _Teller:
    """Prints progress from several threads to standard error, line by line."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        if not self._quiet:
            with self._lock:
                sys.stderr.write(printable(text) + "\n")
                sys.stderr.flush()

    def result(self, done: int, of: int, result: Result) -> None:
        if result.verdict == ERROR and result.said == INTERRUPTED:
            return
        said = result.fault.stage if result.fault is not None else result.verdict.replace("_", " ")
        self.line(f"{done} of {of}  {shorten(result.script.name, 60)}: {said}  {result.seconds:.0f} s")


def _exit_code(triage: dict[str, Any]) -> int:
    verdicts = {row["verdict"] for row in triage["scripts"]}
    if "fails" in verdicts:
        return 1
    if verdicts <= {ERROR}:
        return 3
    return 125 if verdicts <= {ERROR, "inconclusive"} else 0
