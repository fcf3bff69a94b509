"""``accel-lab report``: write an earlier run's report again from its journal; nothing is run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from accel_lab.cli.finish import show, write_files
from accel_lab.core.errors import UsageError
from accel_lab.core.findings import Findings
from accel_lab.execution.run_lock import held
from accel_lab.request import load_request, state_folder
from accel_lab.session import Session


def find_run(name: str) -> Path:
    """The folder of a run, by path or by name among the kept ones."""
    for folder in (Path(name), state_folder() / "runs" / name):
        if (folder / "request.json").is_file():
            return folder.resolve()
    raise UsageError(f"{name} is not a run: `accel-lab list` shows the kept ones")


def again(folder: Path) -> Findings:
    """The findings of a finished run, from the answers in its journal."""
    if (folder / "matrix.json").is_file():
        raise UsageError(f"that run is a matrix: its page is {folder / 'matrix.html'}")
    if not (folder / "report.json").is_file():
        raise UsageError(f"that run is not finished: go on with `accel-lab bisect --resume {folder}`")
    told = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    request = load_request(folder)
    versions = told.get("versions")
    if not told["baseline"]["runs"]:  # releases only: no build was bisected
        findings = Findings(program=request.program, verdict=told["verdict"])
    else:
        # The journal holds all that the search asked, but a reduction that ran out of time would go on, and
        # a line of releases would be opened again.
        findings = Session(replace(request, minimize_s=0.0, versions=None), folder, replay=True).run()
    if versions:
        findings.versions, findings.warnings = versions, told["warnings"]
        findings.probes, findings.artifacts = told["probes_by_kind"], str(folder)
    # What the run took and made, not what it took to read it again.
    findings.seconds_total, findings.seconds_probes = told["seconds"]["total"], told["seconds"]["probes"]
    findings.repro = told["repro"]
    return findings


@click.command(name="report")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(run: str, as_json: bool) -> int:
    """Write the report of RUN (a folder, or a name from `accel-lab list`) again and show it."""
    folder = find_run(run)
    with held(folder):
        findings = again(folder)
        write_files(findings, folder, bundle=(folder / "bundle.zip").exists())
    show(findings, as_json=as_json)
    return 0
