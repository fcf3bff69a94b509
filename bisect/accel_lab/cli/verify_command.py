"""``accel-lab verify``: check a bundle's manifest and run it again."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

import click

from accel_lab.cli.options import MAX_SECONDS, Number, find_python
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.execution import process
from accel_lab.execution.workspace import Workspace
from accel_lab.reporting.verify import check_bundle, extract_bundle, rerun_command

_WORDS = {0: "MATCH", 1: "MISMATCH"}


@click.command(name="verify")
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--python", metavar="PATH", help="The interpreter to run it with; it needs torch. [default: this one]"
)
@click.option("--run/--no-run", default=True, help="Only check the manifest with --no-run.")
@click.option(
    "--timeout", type=Number(1, MAX_SECONDS), default=900.0, show_default=True, help="Seconds for the run."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(bundle: str, python: str | None, run: bool, timeout: float, as_json: bool) -> int:
    """Check BUNDLE and run it again: MATCH (exit 0) or MISMATCH (exit 1).

    Running it executes the code that is in it; a manifest proves that a bundle is whole, not who made it.
    """
    manifest = check_bundle(Path(bundle))
    result: dict[str, object] = {"bundle": bundle, "files": len(manifest.files), "manifest": "ok"}
    code = 0
    said = ""
    if run:
        with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
            folder = Path(name) / "bundle"
            extract_bundle(Path(bundle), folder)
            code, said = _rerun(folder, find_python(python), timeout)
        if code not in _WORDS:
            raise LabError(f"the bundle could not be run again: {said.strip().splitlines()[-1:] or code}")
        result["result"] = _WORDS[code]
    if as_json:
        print_json({**result, "said": said.strip()})
    else:
        click.echo(f"manifest: {len(manifest.files)} files, all as listed")
        if run:
            click.echo(said.strip())
    return code


def _rerun(folder: Path, python: str, timeout: float) -> tuple[int, str]:
    out, err = folder.parent / "stdout.txt", folder.parent / "stderr.txt"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if "accel_lab" in (folder / "repro.py").read_text(encoding="utf-8", errors="replace"):
        # A script that asks for an accelerator of the lab's: the interpreter may lack the lab.
        library = Workspace(folder.parent / "lab", folder).library.parent
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH", ""), str(library)]))
    ended = process.run(
        rerun_command(folder, python),
        cwd=folder,
        env=env,
        stdout=out,
        stderr=err,
        limits=Limits(timeout_s=timeout),
        marker=f"verify-{uuid.uuid4().hex}",
    )
    said = out.read_text(errors="replace") + err.read_text(errors="replace")
    return (3 if ended.exit_code is None else ended.exit_code), said
