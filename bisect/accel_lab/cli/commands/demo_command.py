"""``accel-lab demo``: a two-minute tour on a script that ships with the lab."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from accel_lab.cli.demo_steps import FAULT, SCRIPT, SHIPPED, STEPS, Step
from accel_lab.cli.streams import is_terminal
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.machine.places import state_folder
from accel_lab.execution.processes.interruptible import INTERRUPTED
from accel_lab.reporting.tables.findings import wrapped
from accel_lab.request import new_folder

WIDTH = 100


@click.command(name="demo")
@click.option("--yes", is_flag=True, help="Run all steps without asking.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Where to make the tour's folder. [default: the user's data folder]",
)
def command(yes: bool, out: str | None) -> int:
    """Show what the lab does, on a shipped script and the mock accelerator with a seeded fault.

    Constraints, layers, difference, ladder, smallest repro, bundle. Each step prints the command that it
    runs, to be typed again on a script of your own. Nothing is downloaded.

    Exit codes: 0 every step showed what it should, 2 wrong usage, 3 a step did not, 130 interrupted.
    """
    if not yes and not is_terminal():
        raise UsageError("the tour asks before each step, and there is no terminal: accel-lab demo --yes")
    base = Path(out).resolve() if out else state_folder() / "demo"
    folder = new_folder(base, "demo", "tour's folder", "demo")
    click.echo(
        wrapped(
            f"A tour of {len(STEPS)} steps, about two minutes. The script computes attention scores; the "
            f"mock accelerator has a seeded fault ({FAULT}): its exponential is wrong at each row's end.",
            WIDTH,
        )
    )
    write_atomic(folder / SCRIPT, SHIPPED.read_text(encoding="utf-8"))
    with _fault_on():
        for number, step in enumerate(STEPS, 1):
            code = _shown(step, number, folder, ask=not yes)
            if code is None:
                click.echo(f"The tour ends here. Its files: {folder}")
                return 0
            if code == INTERRUPTED:
                return INTERRUPTED
            if code not in step.ends:
                expected = " or ".join(map(str, step.ends))
                raise LabError(
                    f"step {number} ended with exit code {code}, {expected} was expected: see above what it "
                    "says; accel-lab doctor shows what this machine lacks"
                )
    click.echo(
        f"\nThat was all. The same on a script of yours:\n\n    accel-lab bisect SCRIPT\n\nFiles: {folder}"
    )
    return 0


def _shown(step: Step, number: int, folder: Path, *, ask: bool) -> int | None:
    """Runs a step's command and returns its exit code, or None if the user quits."""
    from accel_lab.cli.main import run

    click.echo(f"\n{number}/{len(STEPS)}  {step.title}\n")
    click.echo(wrapped(step.why, WIDTH))
    click.echo(f"\n    $ {step.line(folder)}\n")
    if ask:
        click.echo("Enter runs it, q ends the tour: ", nl=False)
        if read_answer().strip().lower() in ("q", "quit"):
            return None
    sys.stdout.flush()
    code = run(step.words(folder))
    if code in step.ends:
        for text in step.after(folder):
            click.echo(f"\n{text}")
    return code


def read_answer() -> str:
    """Reads one line from standard input."""
    return sys.stdin.readline()


@contextmanager
def _fault_on() -> Iterator[None]:
    """Sets the seeded fault as the only setting of the mock."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("MOCK_")}
    for name in kept:
        del os.environ[name]
    os.environ["MOCK_FAULTS"] = FAULT
    try:
        yield
    finally:
        del os.environ["MOCK_FAULTS"]
        os.environ.update(kept)
