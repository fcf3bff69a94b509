"""``accel-lab triage``: bisect many scripts, and say how many distinct faults they are."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.options import MAX_SECONDS, Duration, Number, find_python
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import UsageError
from accel_lab.core.files import write_atomic
from accel_lab.core.text import command_line, printable, shorten
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.execution.places import state_folder
from accel_lab.execution.processes.interruptible import Interruptible
from accel_lab.execution.run_folder.lock import held
from accel_lab.reporting.page import triage as page
from accel_lab.reporting.schema import json_text
from accel_lab.reporting.words import triage as words
from accel_lab.request import new_folder
from accel_lab.triage.jobs import ERROR, Job, Result, run_job
from accel_lab.triage.scripts import find_scripts
from accel_lab.triage.triage import (
    REQUEST,
    TRIAGE,
    Plan,
    compared,
    kept_results,
    last_triage,
    run,
)

_REQUEST = {"place": str, "cwd": str, "options": [str]}


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
    help="Time for each script's smallest one; 0: none is made.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Bisections side by side."
)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the folder of the triage.")
@click.option(
    "--resume",
    metavar="TRIAGE",
    type=click.Path(exists=True, file_okay=False),
    help="Go on with the folder of a triage that was cut off.",
)
@click.option("--fresh", is_flag=True, help="Take no answer from an earlier triage of the same place.")
@click.option("--json", "as_json", is_flag=True, help="Print the triage as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    place: str | None,
    python: str | None,
    versions: str | None,
    timeout: float,
    budget_s: float | None,
    minimize_for: float,
    jobs: int,
    out: str | None,
    resume: str | None,
    fresh: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Bisect every script of PLACE, and group what fails into distinct faults.

    PLACE is a folder of scripts (or of capsules), or a file that names one a line. A script whose content was
    bisected before, in the last triage of the same place with the same options, is not asked again.

    Exit codes: 0 no script fails, 1 some do, 2 wrong usage, 3 the lab could not bisect any, 125 none could be
    judged, 130 interrupted.
    """
    base = Path(out).resolve() if out else state_folder() / "runs"
    if resume is not None:
        if place is not None:
            raise UsageError("--resume takes the scripts from the triage's folder: name no place")
        folder = Path(resume).resolve()
        asked = _earlier(folder)
    else:
        if place is None:
            raise UsageError("name a folder of scripts, or a file that lists them: accel-lab triage PLACE")
        asked = {
            "place": str(Path(place).resolve()),
            "cwd": os.getcwd(),
            "options": _options(find_python(python), versions, timeout, budget_s, minimize_for),
        }
        find_scripts(Path(asked["place"]))  # a place without scripts gets no folder
        folder = new_folder(base, "triage", "triage folder", "triage")
        write_atomic(folder / REQUEST, json.dumps(asked, indent=1))
    with held(folder):
        return _run(asked, folder, base, jobs, fresh=fresh, as_json=as_json, quiet=quiet)


def _options(
    python: str, versions: str | None, timeout: float, budget_s: float | None, minimize_for: float
) -> list[str]:
    """The options of ``accel-lab bisect`` for each script."""
    options = ["--python", python, "--timeout", f"{timeout:g}", "--jobs", "1", "--no-verify", "--quiet"]
    options += ["--versions", versions] if versions else []
    options += ["--budget", f"{budget_s:g}"] if budget_s is not None else []
    return [*options, *(["--minimize-for", f"{minimize_for:g}"] if minimize_for else ["--no-minimize"])]


def _earlier(folder: Path) -> dict[str, Any]:
    try:
        asked = ChildFiles(folder).json(REQUEST, _REQUEST)
    except Refused as error:
        raise UsageError(f"{folder / REQUEST} is damaged ({error}): start a new triage") from None
    if asked is None:
        raise UsageError(f"{folder} is not the folder of a triage: it holds no {REQUEST}")
    return dict(asked)


def _run(
    asked: dict[str, Any], folder: Path, base: Path, jobs: int, *, fresh: bool, as_json: bool, quiet: bool
) -> int:
    found = find_scripts(Path(asked["place"]))
    options = tuple(asked["options"])
    plan = Plan(place=asked["place"], folder=folder, cwd=asked["cwd"], options=options, found=found)
    others = [other for other in base.glob("*") if other.is_dir() and other != folder]
    earlier = last_triage(others, plan.place)
    known = kept_results(folder)
    if earlier is not None and not fresh:
        known = {**kept_results(earlier), **known}
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="job") as engine, Interruptible([stop.set]):
        triage = run(plan, engine, _asker(stop), known=known, listener=_teller(quiet))
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
    """Runs a job; none is begun once the user has asked to stop."""

    def ask(job: Job) -> Result:
        if stop.is_set():
            return Result(key=job.key, script=job.script, verdict=ERROR, said="interrupted")
        return run_job(job, stop)

    return ask


def _teller(quiet: bool) -> Callable[[int, int, Result], None]:
    def tell(done: int, of: int, result: Result) -> None:
        if not quiet:
            said = result.fault.stage if result.fault is not None else result.verdict.replace("_", " ")
            line = f"{done} of {of}  {shorten(result.script.name, 60)}: {said}  {result.seconds:.0f} s"
            sys.stderr.write(printable(line) + "\n")
            sys.stderr.flush()

    return tell


def _exit_code(triage: dict[str, Any]) -> int:
    verdicts = {row["verdict"] for row in triage["scripts"]}
    if "fails" in verdicts:
        return 1
    if verdicts <= {ERROR}:
        return 3
    return 125 if verdicts <= {ERROR, "inconclusive"} else 0
