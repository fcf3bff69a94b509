"""``accel-lab dashboard``: serves a web page on this machine that starts bisections and shows the runs."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accel_lab.cli import internal_errors
from accel_lab.cli.commands.runs_command import KINDS, described
from accel_lab.cli.options import find_python
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.places import state_folder
from accel_lab.execution.run_folder.marker import is_marked

if TYPE_CHECKING:
    from accel_lab.dashboard.access import Access

#: Modules that the extra ``dashboard`` installs.
_NEEDED = ("starlette", "uvicorn", "sse_starlette")


@click.command(name="dashboard")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8417, show_default=True, help="0: any free port."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="127.0.0.1 or ::1: only this machine reaches it."
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="A folder whose scripts can be bisected, and whose runs are shown too. Repeatable. "
    "[default: the working directory]",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="PATH",
    help="An interpreter that can be chosen; it needs torch. Repeatable. [default: this one]",
)
@click.option("--open/--no-open", "opens", default=False, help="Open it in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the address and the roots as one line of JSON.")
def command(
    port: int, host: str, roots: tuple[str, ...], pythons: tuple[str, ...], opens: bool, as_json: bool
) -> int:
    """Serve a page that starts bisections, shows their probes as they end, and lists all runs.

    It prints an address with a token, and answers to this machine only. Ctrl-C ends it, and the bisection
    that it runs.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the dashboard needs {', '.join(missing).replace('_', '-')}, which are not installed: "
            "pip install 'accel-lab[dashboard]'"
        )
    from accel_lab.dashboard.places import places
    from accel_lab.dashboard.server import HOSTS, listening, serve

    home = state_folder()
    where = places(
        tuple(Path(root) for root in roots or (os.getcwd(),)),
        {kind: home / kind for kind in KINDS},
        tuple(dict.fromkeys(find_python(python) for python in pythons or (None,))),
    )
    kept = set(where.runs.values()) - set(where.roots)

    def describe(folder: Path) -> dict[str, Any] | None:
        """Describes a folder as a run; in the user's own folders only if the lab has marked it."""
        return described(folder) if folder.parent in kept or is_marked(folder) else None

    with ExitStack() as files:
        bound = files.enter_context(listening(host, port))

        def ready(access: Access) -> None:
            url = access.url(HOSTS[host])
            names = [str(root) for root in where.roots]
            said = f"{url}\nscripts of {', '.join(names)}; Ctrl-C ends it"
            click.echo(json.dumps({"url": url, "roots": names}) if as_json else said)
            sys.stdout.flush()
            if opens:
                webbrowser.open(_leading_to(url, files))

        try:
            serve(bound, where, describe, ready, _mistake, _stopping)
        except KeyboardInterrupt:
            sys.stderr.write("ended\n")
    return 0


def _mistake(error: Exception) -> str:
    """Prints the message of an exception that ended a request, and returns it."""
    line, _ = internal_errors.explained(error)
    sys.stderr.write(f"accel-lab: {line}\n")
    return line


def _stopping() -> None:
    sys.stderr.write("stopping the bisection that runs; what it found is kept\n")


def _leading_to(url: str, files: ExitStack) -> str:
    """Returns the URL of a private page that redirects to ``url``.

    The token in ``url`` must not appear on the browser's command line, which every user can read.
    """
    folder = files.enter_context(tempfile.TemporaryDirectory(prefix="accel-lab-open-"))
    page = Path(folder, "dashboard.html")
    page.touch(0o600)
    page.write_text(
        f'<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">dashboard</a>', "utf-8"
    )
    return page.as_uri()
