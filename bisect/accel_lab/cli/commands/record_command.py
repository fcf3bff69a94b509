"""``accel-lab record``: runs a job once, unmodified, and keeps the first compiled graph that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.options import MAX_SECONDS, Number, ProgramCommand, find_python, split_program
from accel_lab.cli.streams import print_json
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.text import command_line, printable
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.execution.processes import process
from accel_lab.execution.programs import read_program
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.protocol.files import RECORDED
from accel_lab.record.verified import Capsule, finish_capsule, is_capsule
from accel_lab.reporting.schema import json_text
from accel_lab.request import Request, opened

_COUNTS = {"graphs": int, "checked": int, "unchecked": {}, "check_seconds": float, "notes": [str]}


@click.command(name="record", cls=ProgramCommand)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
@click.option("--module", "-m", metavar="MODULE", help="Run a module as `python -m` does; ARGS follow.")
@click.option("--python", metavar="PATH", help="The interpreter that runs it. [default: this one]")
@click.option("--out", type=click.Path(file_okay=False), help="Where to make the run's folder.")
@click.option(
    "--every",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Check each N-th call of a compiled graph; 0: only the first ones.",
)
@click.option(
    "--first",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Check the first N calls of each compiled graph.",
)
@click.option(
    "--memory-mb",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    help="MB for the copies of one call's inputs; a call with more is not checked.",
)
@click.option(
    "--disk-mb", type=click.IntRange(min=1), default=1024, show_default=True, help="MB for one capsule."
)
@click.option(
    "--capsules",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Most capsules that are kept.",
)
@click.option(
    "--hang",
    type=Number(0, MAX_SECONDS),
    default=600.0,
    show_default=True,
    help="Keep a call that takes longer than these seconds; 0: none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    program: tuple[str, ...],
    module: str | None,
    python: str | None,
    out: str | None,
    as_json: bool,
    **sampling: Any,
) -> int:
    """Run SCRIPT once, unmodified, and keep the first call of a compiled graph that is wrong, raises or
    hangs.

    A sample of each compiled graph's calls is compared with the same graph run eagerly and, in doubt, in
    float64. The result is a capsule: a folder with the graph as a script and its inputs, which `accel-lab
    bisect`, `minimize` and `diff` take like a script. Under torchrun each rank records itself: `torchrun ...
    -m accel_lab.record SCRIPT`.

    Exit codes: 0 nothing was wrong, 1 a capsule was kept, 2 wrong usage, 3 the lab could not do it.
    """
    script, args = split_program(module, program)
    request = Request(
        program=read_program(script, module, args),
        python=find_python(python),
        out=Path(out).resolve() if out else None,
    )
    request, folder = opened(request, "record")
    with held(folder):
        sampling["hang_s"] = sampling.pop("hang")
        code = _run(request, folder, sampling, as_json)
        found = _capsules(folder)
        kept = []
        for number, path in enumerate(found, 1):
            click.echo(f"… verifying capsule {number} of {len(found)}", err=True)
            kept.append(finish_capsule(path, request.python))
    counts = _counts(folder)
    result = {
        "schema": "accel-lab/record/1",
        "script": request.program.to_json(),
        "exit_code": code,
        "capsules": [{"folder": str(one.folder), **one.data} for one in kept],
        "recorded": counts,
        "artifacts": str(folder),
    }
    write_atomic(folder / "record.json", json_text(result))
    if as_json:
        print_json(result)
    else:
        click.echo("\n".join(printable(line) for line in lines_of(kept, counts, code, folder)))
    return int(bool(kept))


def _run(request: Request, folder: Path, sampling: dict[str, Any], to_stderr: bool) -> int | None:
    """Runs the job on this terminal; returns its exit code, or None if a signal ended it."""
    workspace = Workspace(folder, Path.cwd())
    options = folder / "record-request.json"
    job = {"program": request.program.to_json(), "folder": str(folder / "capsules"), "sampling": sampling}
    write_atomic(options, json.dumps(job))
    entry = str(workspace.library / "__main__.py")
    return process.run_in_terminal([request.python, entry, "record", str(options)], to_stderr=to_stderr)


def _capsules(folder: Path) -> list[Path]:
    places = [*(folder / "capsules").glob("*"), *(folder / "capsules").glob("rank*/*")]
    return sorted(place for place in places if place.is_dir() and is_capsule(place))


def _counts(folder: Path) -> dict[str, Any]:
    """Reads the job's summary of its recording; empty if the job did not finish or compiled nothing."""
    try:
        said = ChildFiles(folder / "capsules").json(RECORDED, _COUNTS)
    except (UntrustedFileError, OSError):
        return {}
    return dict(said) if isinstance(said, dict) else {}


def lines_of(kept: list[Capsule], counts: dict[str, Any], code: int | None, folder: Path) -> list[str]:
    ended = "was ended by a signal" if code is None else f"ended with exit code {code}"
    lines = [f"The job {ended}."]
    if counts:
        lines.append(
            f"{counts['graphs']} graphs, {counts['checked']} of their calls checked in "
            f"{counts['check_seconds']:.1f} s."
        )
        lines += [f"{n} calls were not checked: {why}." for why, n in sorted(counts["unchecked"].items())]
        lines += [f"note: {note}" for note in counts["notes"]]
    else:
        lines.append("No compiled graph was reported: it compiled none with Inductor, or was killed.")
    for one in kept:
        lines += ["", f"Capsule  {one.folder}", f"  {one.description}", f"  {one.verification}"]
        if one.verified:
            lines.append(f"  What is at fault: {command_line('accel-lab', 'bisect', one.folder)}")
    return lines if kept else [*lines, "No failures in the checked calls.", f"folder   {folder}"]
