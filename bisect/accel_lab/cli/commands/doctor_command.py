"""``accel-lab doctor``: checks whether this machine and an interpreter can bisect."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from accel_lab.cli.options import find_python
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import LabError
from accel_lab.core.machine.places import state_folder
from accel_lab.execution.builds import inspect_build
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.lab import LocalLab, Oracle


@click.command(name="doctor")
@click.option("--python", metavar="PATH", help="The interpreter to look at. [default: this one]")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(python: str | None, as_json: bool) -> int:
    """Check that a bisection can work here. Exit code 3 if something is missing."""
    checks: list[tuple[str, bool, str]] = []
    facts: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
        folder = Path(name)
        interpreter = find_python(python)
        try:
            build = inspect_build(interpreter, folder)
            facts = build.facts
            checks.append(("torch", True, f"{build.torch} in {interpreter}"))
        except LabError as error:
            checks.append(("torch", False, str(error)))
        with Prober(python=interpreter, workspace=Workspace(folder / "run", folder)) as prober:
            works, said = LocalLab(prober, Oracle()).compiler_works()
        checks.append(("C++ compiler", works, said))
        home = state_folder()
        free = shutil.disk_usage(next(p for p in (home, *home.parents) if p.exists())).free
        checks.append(("disk", free > 1e9, f"{free / 1e9:.0f} GB free for {home}"))
    fine = all(ok for _, ok, _ in checks)
    if as_json:
        rows = [{"check": n, "ok": ok, "detail": d} for n, ok, d in checks]
        print_json({"ok": fine, "checks": rows, "facts": facts})
    else:
        for label, ok, detail in checks:
            click.echo(f"{'ok     ' if ok else 'MISSING'}  {label:13s} {detail}")
    return 0 if fine else 3
