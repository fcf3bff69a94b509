"""Turns findings into files, terminal text, JSON and an exit code."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accel_lab.cli.streams import print_json
from accel_lab.core.errors import LabError
from accel_lab.core.findings import Findings
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.stages import Confidence
from accel_lab.reporting.words.summary import next_steps, summarise

if TYPE_CHECKING:
    from accel_lab.reporting.bundle.writer import BundleReport


def write_files(
    findings: Findings, folder: Path, *, bundle: bool, verify: bool = False, fresh: bool = False
) -> None:
    """Writes ``report.json``, ``report.html`` and, with ``bundle``, ``bundle.zip`` into the run's folder.

    ``verify`` first runs the bundle as its reader will, which costs a cold run. ``fresh`` means that the run
    was just made.
    """
    sum_up(findings)
    findings.report = str(folder / "report.html")
    findings.bundle = None
    _write_reports(findings, folder)  # first, so that nothing is lost if the bundle's run is stopped
    if bundle:
        from accel_lab.cli.bundle_check import write_checked_bundle

        try:
            made, said = write_checked_bundle(
                findings, folder, folder / "bundle.zip", verify=verify, fresh=fresh
            )
            findings.bundle, findings.bundle_check = str(folder / "bundle.zip"), said.to_json()
            findings.warnings += [f"left out of the bundle: {d.name} ({d.reason})" for d in made.dropped[:5]]
            findings.warnings += [*elsewhere(made), *made.warnings]
            report_left(made, folder)
        except (LabError, OSError) as error:
            findings.warnings.append(f"no bundle was written: {error}")
        _write_reports(findings, folder)


def _write_reports(findings: Findings, folder: Path) -> None:
    from accel_lab.reporting.page.report import write_html
    from accel_lab.reporting.schema import report_json

    write_html(findings, folder, folder / "report.html")
    write_atomic(folder / "report.json", report_json(findings))


def elsewhere(made: BundleReport) -> list[str]:
    """Returns warnings about files that the bundle lacks: too big, or outside the script's folder."""
    lines = [
        f"too big for the bundle; a reader has to put it at {name}: {path}" for name, path in made.missing
    ]
    apart = [f"{one.path} ({one.reason})" for one in made.apart[:3]]
    more = f" and {len(made.apart) - 3} more" if len(made.apart) > 3 else ""
    return lines + (
        [f"the script reads what is not in the bundle: {', '.join(apart)}{more}"] if apart else []
    )


def sum_up(findings: Findings) -> None:
    """Fills in the summary and the next steps of ``findings``."""
    findings.summary = summarise(findings)
    findings.next_steps = next_steps(findings)


def report_left(made: BundleReport, folder: Path) -> None:
    """Prints how many possibly private words are left in the bundle, and how to review them."""
    from accel_lab.reporting.redact.review import count_words

    count = len(made.left)
    see = f": accel-lab bundle {shlex.quote(str(folder))} --review" if count else ""
    click.echo(f"{count_words(count)} in the bundle{see}", err=True)


def show(findings: Findings, *, as_json: bool, tables: bool = True) -> None:
    """Prints the result on standard output, as text with tables or as JSON."""
    if as_json:
        from accel_lab.reporting.schema import findings_json

        print_json(findings_json(findings))
        return
    from accel_lab.reporting.tables import findings as terminal

    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
    blocks = [terminal.paragraph(findings, colour=colour, width=width)]
    blocks.append(terminal.workarounds_block(findings, colour=colour, width=width))
    blocks += [terminal.repro_block(findings, colour=colour, width=width)] if findings.repro else []
    if findings.versions and tables:
        blocks.append(terminal.versions_block(findings, colour=colour, unicode=unicode, width=width))
    if findings.ladder and tables:
        blocks.append(terminal.ladder_table(findings, colour=colour, unicode=unicode, width=width))
    if findings.ablation and tables:
        blocks.append(terminal.ablation_table(findings, colour=colour, unicode=unicode, width=width))
    if findings.witness and tables:
        blocks.append(f"Cross-check: {findings.witness.words}")
    blocks.append(_files(findings))
    click.echo("\n\n".join(block for block in blocks if block))


def _files(findings: Findings) -> str:
    check = findings.bundle_check or {}
    cost = f"; that took {check['seconds']:.0f} s" if check.get("seconds") else ""
    bundle = f"{findings.bundle}  ({check['words']}{cost})" if findings.bundle and check else findings.bundle
    rows = [("report", findings.report), ("bundle", bundle), ("folder", findings.artifacts)]
    counted = sum(findings.probes.values())
    head = f"{counted} probes in {findings.seconds_total:.0f} s"
    return "\n".join([head, *(f"{name:7s} {path}" for name, path in rows if path)])


def exit_code(findings: Findings) -> int:
    """Returns 0 (does not fail), 1 (reproduced, with an answer) or 125 (cannot tell): DESIGN section 10."""
    if findings.verdict == "passes":
        return 0
    if (
        findings.verdict == "by_design"
    ):  # with a signature the script itself failed; without one only values differ
        return 1 if findings.signature is not None else 0
    if findings.versions and findings.versions.metric:
        return 1 if findings.verdict == "fails" else 125
    culprit = findings.culprit
    if culprit is None or culprit.confidence is Confidence.INCONCLUSIVE:
        return 125
    return 1
