"""``accel-lab verify``: checks a bundle's manifest and runs the bundle again."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.options import MAX_SECONDS, Number, find_python
from accel_lab.cli.streams import print_json
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.text import printable
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.providers import provider
from accel_lab.execution.processes import process
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.record.verified import finish_capsule, is_capsule, read_capsule
from accel_lab.reporting.bundle.run_again import Runner
from accel_lab.reporting.bundle.verify import Manifest, check_bundle, verify_bundle


@dataclass(frozen=True, kw_only=True)
class Where:
    """The interpreter and the runner for a bundle; ``words`` describe them to the user."""

    python: str
    run: Runner
    words: str


@click.command(name="verify")
@click.argument("bundle", type=click.Path(exists=True))
@click.option(
    "--python", metavar="PATH", help="The interpreter to run it with; it needs torch. [default: this one]"
)
@click.option("--run/--no-run", default=True, help="Only check the manifest with --no-run.")
@click.option("-y", "--yes", is_flag=True, help="Run the bundle's code without asking.")
@click.option(
    "--provider",
    "provider_name",
    type=click.Choice(["local", "docker"]),
    help="Where to run it: under your account on this machine (local), or in a container without network "
    "(docker). [default: docker if a daemon has an image of the bundle's torch and no --python is given, "
    "else local]",
)
@click.option("--image", metavar="NAME", help="For docker: the image's name, {version} in it is the release.")
@click.option("--docker-host", metavar="URL", help="For docker: the daemon. [default: DOCKER_HOST]")
@click.option(
    "--timeout", type=Number(1, MAX_SECONDS), default=900.0, show_default=True, help="Seconds for the run."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    bundle: str,
    python: str | None,
    run: bool,
    yes: bool,
    provider_name: str | None,
    image: str | None,
    docker_host: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Check BUNDLE and run it again: MATCH (exit 0) or MISMATCH (exit 1).

    BUNDLE is a bundle.zip, or a capsule of `accel-lab record`: its script is run by itself once more.

    Running it executes the code that is in it; a manifest proves that a bundle is whole, not who made it. The
    lab's own rerun.py runs it, with an environment that has no keys and tokens in it.

    Exit codes: 0 MATCH, 1 MISMATCH, 2 wrong usage or a bundle that is not sound, 3 the run gave no
    answer, 130 you did not agree.
    """
    path = Path(bundle)
    if python is not None and (provider_name == "docker" or image):
        raise UsageError("--python is an interpreter of this machine: it cannot be combined with docker")
    if is_capsule(path):
        return _verify_capsule(path, find_python(python), run, yes, timeout, as_json)
    if path.is_dir():
        raise UsageError(f"{bundle} is a folder: name a bundle.zip, or a capsule of `accel-lab record`")
    manifest = check_bundle(path)
    result: dict[str, Any] = {"bundle": bundle, "files": len(manifest.files), "manifest": "ok"}
    lines = [f"manifest: {len(manifest.files)} files, all as listed"]
    code = 0
    if run:
        wanted = "docker" if image else provider_name or ("local" if python else "")
        options = EnvironmentOptions(image=image or "", docker_host=docker_host or "")
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="accel-lab-")))
            where = _place(stack, wanted, python, _torch_of(manifest), options, folder)
            _ask(path, where, yes)
            (folder / "work").mkdir()
            done = verify_bundle(
                path,
                confirmed=True,
                python=where.python,
                run=where.run,
                timeout_s=timeout,
                library=lambda: Workspace(folder / "lab", folder / "lab" / "cwd").library.parent,
                folder=folder / "work",
            )
        code = 0 if done.matches else 1
        result |= {"result": "MATCH" if done.matches else "MISMATCH", "where": where.words}
        result |= {"notes": list(done.notes), "said": done.said}
        lines += [f"note: {note}" for note in done.notes] + [done.said]
    if as_json:
        print_json({"said": "", **result})
    else:
        click.echo("\n".join(lines))
    return code


def _verify_capsule(path: Path, python: str, run: bool, yes: bool, timeout_s: float, as_json: bool) -> int:
    """Runs a capsule's script by itself; without ``run`` it only prints what the capsule holds."""
    capsule = read_capsule(path)
    result: dict[str, Any] = {
        "capsule": str(path),
        "kind": capsule.data["kind"],
        "failure": capsule.description,
    }
    lines = [f"capsule: {capsule.description}"]
    code = 0
    if run:
        _ask(path, Where(python=python, run=process.run, words="as you on this machine"), yes)
        capsule = finish_capsule(path, python, timeout_s=timeout_s)
        code = 0 if capsule.verified else 1
        result |= {"result": "MATCH" if capsule.verified else "MISMATCH", "said": capsule.verification}
        lines.append(f"{result['result']}: {capsule.verification}")
    if as_json:
        print_json({"said": "", **result})
    else:
        click.echo("\n".join(printable(line) for line in lines))
    return code


def _ask(bundle: Path, where: Where, yes: bool) -> None:
    """Asks the user before foreign code is run; raises :class:`UsageError` without a terminal."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"verify runs the code that is in {bundle.name}, {where.words}, and there is no terminal to ask "
            "at: look at it first (--no-run only checks it), then say --yes"
        )
    click.confirm(
        f"{bundle.name} contains code of whoever made it. Run it {where.words}?", abort=True, err=True
    )


def _place(
    stack: ExitStack, wanted: str, python: str | None, torch: str, options: EnvironmentOptions, folder: Path
) -> Where:
    """Chooses where to run the bundle: a container if wanted, or if available and nothing else is wanted."""
    if wanted != "local" and (torch or wanted):
        try:
            return _in_container(stack, torch, options, folder)
        except EnvironmentUnavailable:
            if wanted:
                raise
    return Where(python=find_python(python), run=process.run, words="as you on this machine")


def _in_container(stack: ExitStack, torch: str, options: EnvironmentOptions, folder: Path) -> Where:
    if not torch:
        raise UsageError("the bundle does not say which torch it needs: use --provider local")
    maker: Any = stack.enter_context(provider("docker", options, run=process.run))
    made = maker.make(maker.spec(torch))
    workspace = Workspace(folder / "lab", folder / "lab" / "cwd")
    words = f"in a container of {made.spec.image.partition('@')[0]}, without network"
    runner = maker.runner(made, workspace, read=[folder / "work"])
    return Where(python=made.python, run=runner, words=words)


def _torch_of(manifest: Manifest) -> str:
    """Returns the release of torch that the bundle's failure was seen on, or an empty string."""
    environment = manifest.report.get("environment")
    torch = environment.get("torch") if isinstance(environment, dict) else None
    return torch.partition("+")[0] if isinstance(torch, str) else ""
