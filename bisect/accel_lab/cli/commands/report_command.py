"""``accel-lab report``: rebuilds a run's report from its journal, or joins many runs; runs no script."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.commands.runs_command import KINDS
from accel_lab.cli.finish import show, write_files
from accel_lab.core.errors import LabError, Unanswered, UsageError
from accel_lab.core.findings import Findings, Repro
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.machine.places import state_folder
from accel_lab.core.releases.versions import Versions
from accel_lab.core.text import command_line
from accel_lab.core.workarounds import KnownFailure, Workaround
from accel_lab.execution.processes import process
from accel_lab.execution.programs import CAPSULE
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.marker import is_marked, made_by
from accel_lab.reporting.page import joint as joint_page
from accel_lab.reporting.runs.joint import joint
from accel_lab.reporting.runs.kept_run import KeptRun, kept_run
from accel_lab.reporting.schema import json_text
from accel_lab.reporting.words import joint as joint_words
from accel_lab.request import load_request
from accel_lab.session import Session

FORMATS = ("html", "json", "md")


def find_run(name: str) -> Path:
    """Returns the folder of a bisection, by path or by kept name. Raises :class:`UsageError`."""
    for folder in (Path(name), state_folder() / "runs" / name):
        if (folder / "request.json").is_file():
            return folder.resolve()
    raise _no_run(name)


def _no_run(name: str) -> UsageError:
    """Returns the error for a name that is not a run, with what to do about it."""
    if (Path(name) / CAPSULE).is_file():
        first = command_line("accel-lab", "bisect", name)
        return UsageError(f"{name} is a capsule, not a run: `{first}` makes a run of it")
    return UsageError(f"{name} is not a run: `accel-lab list` shows the kept ones")


def again(folder: Path) -> Findings:
    """Rebuilds the findings of a finished run from the answers in its folder, without starting a program.

    The folder may come from a stranger, so nothing that it names is run. A missing answer raises
    :class:`LabError`, an unfinished run :class:`UsageError`.
    """
    if (folder / "matrix.json").is_file():
        raise UsageError(f"that run is a matrix: its page is {folder / 'matrix.html'}")
    if not (folder / "report.json").is_file():
        go_on = command_line("accel-lab", "bisect", "--resume", folder)
        raise UsageError(f"that run is not finished: go on with `{go_on}`")
    request = load_request(folder)
    saved = _saved_report(folder)
    if saved.bisected:
        # The journal answers the search. A reduction that had run out of time would continue, and a line of
        # releases would be opened again, so both are turned off.
        session = Session(
            replace(request, minimize_s=0.0, workarounds_s=0.0, versions=None), folder, replay=True
        )
        try:
            findings = session.run()
        except Unanswered as error:
            raise LabError(f"{error}; an earlier run is only read again, nothing is run for it") from None
    else:  # only releases were run
        findings = Findings(program=request.program, verdict=saved.verdict)
    if saved.versions:
        findings.versions, findings.warnings = saved.versions, [*saved.warnings]
        findings.artifacts = str(folder)
    # The original run's times and counts, not those of this replay.
    findings.seconds_total, findings.seconds_probes, findings.seconds_workarounds = saved.seconds
    findings.probes = saved.probes
    findings.repro = saved.repro
    findings.unasked, findings.budget_s = saved.unasked, request.options.time_s
    findings.workarounds, findings.known = saved.workarounds, saved.known
    return findings


@dataclass(frozen=True, kw_only=True)
class SavedReport:
    """The parts of an earlier run's report that its journal does not hold."""

    bisected: bool
    verdict: str
    versions: Versions | None
    warnings: list[str]
    probes: dict[str, int]
    seconds: tuple[float, float, float]
    repro: Repro | None
    unasked: list[str]
    workarounds: list[Workaround]
    known: list[KnownFailure]


def _saved_report(folder: Path) -> SavedReport:
    """Reads report.json; raises :class:`UsageError` if it is damaged."""
    try:
        data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return SavedReport(
            bisected=bool(data["baseline"]["runs"]),
            verdict=str(data["verdict"]),
            versions=Versions.from_json(data["versions"]) if data.get("versions") else None,
            warnings=[str(line) for line in data["warnings"]],
            probes={str(kind): int(count) for kind, count in data["probes_by_kind"].items()},
            seconds=(
                float(data["seconds"]["total"]),
                float(data["seconds"]["probes"]),
                float(data["seconds"].get("workarounds", 0)),
            ),
            repro=Repro.from_json(data["repro"]) if data["repro"] else None,
            unasked=[str(line) for line in data.get("unasked", [])],
            workarounds=[Workaround.from_json(row) for row in data.get("workarounds", [])],
            known=[KnownFailure.from_json(row) for row in data.get("known", [])],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{folder / 'report.json'} is damaged: it is not a report of the lab") from None


@contextmanager
def only_read(folder: Path) -> Iterator[Findings]:
    """Yields the findings of an earlier run; starting a process inside the block is an error."""
    with process.nothing_starts("an earlier run is only read again: no program is started for it"):
        yield again(folder)


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Join the runs into one page, JSON or Markdown. [default: html for several runs]",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    help="Where the joint report goes. [default: JSON and Markdown are printed, a page is put into a new "
    "file in the user's data folder]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(runs: tuple[str, ...], form: str | None, out: str | None, as_json: bool) -> int:
    """Write the report of RUN (a folder, or a name from `accel-lab list`) again and show it.

    With several runs, or with --format, the runs of any commands are joined: models by constraints, accuracy
    and stage. Two runs are compared.
    """
    if len(runs) == 1 and form is None and _is_bisection(runs[0]):
        if out is not None:
            raise UsageError("--out is for a joint report: add --format")
        folder = find_run(runs[0])
        with held(folder), only_read(folder) as findings:
            write_files(findings, folder, bundle=(folder / "bundle.zip").exists())
        show(findings, as_json=as_json)
        return 0
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} contradict each other")
    _join(runs, form or ("json" if as_json else "html"), Path(out) if out is not None else None)
    return 0


def _is_bisection(name: str) -> bool:
    """Whether a run is a bisection, whose findings can be rebuilt from its journal."""
    return (any_run(name) / "request.json").is_file()


def any_run(name: str) -> Path:
    """Returns the folder of a run of any command, by path or by name. Raises :class:`UsageError`."""
    for folder in (Path(name), *(state_folder() / kind / name for kind in KINDS)):
        if folder.is_dir() and (kept_run(folder) is not None or is_marked(folder)):
            return folder.resolve()
    raise _no_run(name)


def _join(names: tuple[str, ...], form: str, out: Path | None) -> None:
    folders = dict.fromkeys(any_run(name) for name in names)
    data = joint(
        [
            kept_run(folder, made_by(folder))
            or KeptRun(name=folder.name, kind=made_by(folder), folder=str(folder), verdict="unfinished")
            for folder in folders
        ]
    )
    forms: dict[str, Callable[[dict[str, Any]], str]] = {
        "html": joint_page.render,
        "json": json_text,
        "md": joint_words.markdown,
    }
    text = forms[form](data)
    if out is None and form != "html":
        click.echo(text, nl=False)
        return
    if out is None:
        place = state_folder() / "reports"
        place.mkdir(parents=True, exist_ok=True)
        out = place / f"report-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.html"
    try:
        write_atomic(out, text)
    except OSError as error:
        raise UsageError(f"cannot write {out} ({error.strerror}): choose another with --out") from None
    click.echo(f"{joint_words.headline(data)}\n{out}")
