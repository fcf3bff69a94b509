"""``accel-lab guards``: reports what Dynamo compiled, where graphs broke, and why it recompiled."""

from __future__ import annotations

import json
from typing import Any

import click

from accel_lab.cli.job import Question, require_run, run_each
from accel_lab.cli.options import ProgramCommand, program_options
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Rung
from accel_lab.execution.journal import write_atomic
from accel_lab.inspection.compile_report import CompileReport

#: Backend of Dynamo, and the rung that uses it.
_BACKENDS = {"inductor": Rung.KERNEL, "eager": Rung.DYNAMO}
_NOTHING = "the script compiles nothing with torch.compile, or left by os._exit: there is nothing to report"


@click.command(name="guards", cls=ProgramCommand)
@program_options
@click.option(
    "--backend",
    type=click.Choice(list(_BACKENDS)),
    default="inductor",
    show_default=True,
    help="What compiles the graphs. eager is quick; guards that Inductor adds are missing then.",
)
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(backend: str, out: str | None, as_json: bool, **words: Any) -> int:
    """Run SCRIPT once and report its graphs, graph breaks, guards and recompilations.

    The script need not fail. For each graph break and each recompilation the report has the reason, the
    place in the script, and what to write instead.

    Exit codes: 0 no graph breaks and no recompilations, 1 some, 2 wrong usage, 3 the lab could not do it.
    """
    from accel_lab.reporting.page import guards as page
    from accel_lab.reporting.words import guards

    question = Question(rung=_BACKENDS[backend], switches=(("compile_log", True),))
    (once,) = run_each([question], command="guards", out=out, **words)
    report = _report(once.outcome)
    folder = once.workspace.root
    program, torch = once.program.name, once.build.torch or ""
    data = {**report.to_json(), "program": program, "torch": torch, "folder": str(folder)}
    write_atomic(folder / "guards.json", json.dumps(data, indent=1))
    page.write(report, program, torch, folder)
    if as_json:
        print_json(data)
    else:
        click.echo(guards.terminal(report))
        ended = signature_of(once.outcome)
        if ended is not None:
            click.echo(f"\nThe script failed: {ended.line}. The report covers what was compiled until then.")
        click.echo(f"\npage    {folder / 'guards.html'}\nfolder  {folder}")
    return int(bool(report.breaks or report.recompilations))


def _report(outcome: Outcome) -> CompileReport:
    """Reads the compile log of a run. Raises LabError or UsageError if it compiled nothing."""
    require_run(outcome)
    facts = outcome.facts.get("compile_log")
    if facts is None:
        ended = signature_of(outcome)
        if ended is None:  # the script never imported torch, or left by os._exit
            raise UsageError(_NOTHING)
        raise LabError(f"the run ended without a record of its compilations: {ended.line}")
    report = CompileReport.from_facts(facts)
    if not report.compilations:
        raise UsageError(_NOTHING)
    return report
