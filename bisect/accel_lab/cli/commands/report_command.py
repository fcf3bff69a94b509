"""``accel-lab report``: write an earlier run's report again from its journal; nothing is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from accel_lab.cli.finish import show, write_files
from accel_lab.core.errors import LabError, Unanswered, UsageError
from accel_lab.core.findings import Findings, Repro
from accel_lab.core.text import command_line
from accel_lab.core.versions import Versions
from accel_lab.execution.processes import process
from accel_lab.execution.programs import CAPSULE
from accel_lab.execution.run_folder.lock import held
from accel_lab.request import load_request, state_folder
from accel_lab.session import Session


def find_run(name: str) -> Path:
    """The folder of a run, by path or by name among the kept ones."""
    for folder in (Path(name), state_folder() / "runs" / name):
        if (folder / "request.json").is_file():
            return folder.resolve()
    if (Path(name) / CAPSULE).is_file():
        first = command_line("accel-lab", "bisect", name)
        raise UsageError(
            f"{name} is a capsule, not a run: `{first}` bisects it, and writes report and bundle"
        )
    raise UsageError(f"{name} is not a run: `accel-lab list` shows the kept ones")


def again(folder: Path) -> Findings:
    """The findings of a finished run, from the answers in its folder. No program is started for it.

    A run's folder may come from somebody else: what it names is not run, and an answer that is not there is
    an error (:class:`Unanswered`).
    """
    if (folder / "matrix.json").is_file():
        raise UsageError(f"that run is a matrix: its page is {folder / 'matrix.html'}")
    if not (folder / "report.json").is_file():
        go_on = command_line("accel-lab", "bisect", "--resume", folder)
        raise UsageError(f"that run is not finished: go on with `{go_on}`")
    request = load_request(folder)
    saved = _saved_report(folder)
    if saved.bisected:
        # The journal holds all that the search asked, but a reduction that ran out of time would go on, and
        # a line of releases would be opened again.
        session = Session(replace(request, minimize_s=0.0, versions=None), folder, replay=True)
        try:
            findings = session.run()
        except Unanswered as error:
            raise LabError(f"{error}; an earlier run is only read again, nothing is run for it") from None
    else:  # releases only: no build was bisected
        findings = Findings(program=request.program, verdict=saved.verdict)
    if saved.versions:
        findings.versions, findings.warnings = saved.versions, saved.warnings
        findings.probes, findings.artifacts = saved.probes, str(folder)
    # What the run took and made, not what it took to read it again.
    findings.seconds_total, findings.seconds_probes = saved.seconds
    findings.repro = saved.repro
    findings.unasked, findings.budget_s = saved.unasked, request.options.time_s
    return findings


@dataclass(frozen=True, kw_only=True)
class SavedReport:
    """What the report of an earlier run says that its journal does not."""

    bisected: bool
    verdict: str
    versions: Versions | None
    warnings: list[str]
    probes: dict[str, int]
    seconds: tuple[float, float]
    repro: Repro | None
    unasked: list[str]


def _saved_report(folder: Path) -> SavedReport:
    """Raises :class:`UsageError` for a report that was not written by the lab, or was changed since."""
    try:
        data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return SavedReport(
            bisected=bool(data["baseline"]["runs"]),
            verdict=str(data["verdict"]),
            versions=Versions.from_json(data["versions"]) if data.get("versions") else None,
            warnings=[str(line) for line in data["warnings"]],
            probes={str(kind): int(count) for kind, count in data["probes_by_kind"].items()},
            seconds=(float(data["seconds"]["total"]), float(data["seconds"]["probes"])),
            repro=Repro.from_json(data["repro"]) if data["repro"] else None,
            unasked=[str(line) for line in data.get("unasked", [])],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{folder / 'report.json'} is damaged: it is not a report of the lab") from None


@contextmanager
def only_read(folder: Path) -> Iterator[Findings]:
    """The findings of an earlier run; nobody starts a program meanwhile."""
    with process.nothing_starts("an earlier run is only read again: no program is started for it"):
        yield again(folder)


@click.command(name="report")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(run: str, as_json: bool) -> int:
    """Write the report of RUN (a folder, or a name from `accel-lab list`) again and show it."""
    folder = find_run(run)
    with held(folder), only_read(folder) as findings:
        write_files(findings, folder, bundle=(folder / "bundle.zip").exists())
    show(findings, as_json=as_json)
    return 0
