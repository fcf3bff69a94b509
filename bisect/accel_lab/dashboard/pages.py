"""Renders the dashboard's pages from Jinja templates with the reports' style sheet and autoescaping."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from accel_lab import __version__
from accel_lab.core.text import command_line, counted, printable, shorten
from accel_lab.reporting.page.files import style, style_digest
from accel_lab.reporting.runs import joint
from accel_lab.reporting.runs.kept_run import UNFINISHED, KeptRun

from .access import POLICY
from .followed import FollowedRun
from .forms import OPTIONS
from .jobs import Job
from .live import Live, State, seconds_in_words
from .runs import Row, RunFile

ROWS_OF_PAGE = 60
_PICTURES, _MOST_PICTURES, _MOST_LINES = (".png", ".svg"), 24, 200
#: Folders of a run whose pictures are shown.
_SHOWN = ("", "pictures", "layers")
#: Colour classes of verdicts, by regular expressions for their beginning.
_MARKS = (
    (r"fails|[1-9]\d* of \d+ values differ|[1-9]\d* violation", "bad"),
    (r"passes|by_design|0 of \d+ values differ|no violation", "good"),
    (r"unfinished|-$", "na"),
    (r"running$", "skip"),
    (r"damaged|[1-9]\d* warning", "different"),
)
_STATES = {State.WAITING: "na", State.RUNNING: "skip", State.STOPPING: "different", State.OVER: "good"}
#: Headings for the folders of a run.
_GROUPS = {
    "": "Results",
    "layers": "Graphs and loop IR",
    "kernels": "Kernels",
    "code": "Generated programs",
    "mock": "The mock's layers",
    "pictures": "Pictures",
    "repro": "The smallest repro",
    "repros": "Repros",
    "probes": "Probes",
    "accelerator": "The accelerator's files",
    "versions": "Releases",
    "reduce": "The reducer's work",
    "scripts": "Scripts of the triage",
    "edited": "Edited scripts",
    "backport": "The piece of a later release",
    "project": "The project in the bundle",
    "asides": "Facts of the environment",
    "lib": "The program that runs a probe",
    "server": "The warm server's log",
}


#: Groups that are collapsed, because few readers need them.
_CLOSED = frozenset({"probes", "reduce", "lib", "server", "asides", "project"})


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"printable": printable, "short": lambda text: shorten(printable(text), 200), "mb": _mb}
    return made


@cache
def _own(name: str) -> str:
    return resources.files(__package__).joinpath("pages", name).read_text(encoding="utf-8")


def script() -> str:
    """Returns the script that shows a bisection's lines as they arrive."""
    return _own("live.js")


@cache
def sheet() -> str:
    """Returns the style sheet of every page."""
    return style("report.css", "grid.css", "joint.css") + _own("dashboard.css")


@cache
def policy() -> str:
    """Returns the content security policy of the dashboard's own pages."""
    return POLICY.format(style=f"'sha256-{style_digest(sheet())}'")


def _page(name: str, **values: Any) -> str:
    return _templates().get_template(name).render(style=sheet(), version=__version__, **values)


def home(
    *,
    rows: Sequence[Row],
    jobs: Sequence[Job],
    scripts: Sequence[str],
    roots: Sequence[str],
    pythons: Sequence[str],
    form: str,
    root: str,
    kind: str = "",
    start: int = 0,
    wrong: str = "",
    fields: Mapping[str, str] | None = None,
) -> str:
    """Renders the first page: the form, this dashboard's bisections, and the runs.

    ``root`` is the prefix of all addresses. ``kind`` filters the runs, ``start`` is the first one shown.
    ``wrong`` says what is wrong with ``fields``.
    """
    kinds = sorted({row.kind for row in rows})
    chosen = [row for row in rows if kind in ("", row.kind)]
    start = min(max(start, 0), max(len(chosen) - 1, 0)) // ROWS_OF_PAGE * ROWS_OF_PAGE
    return _page(
        "home.html.j2",
        rows=[
            {
                "row": row,
                "mark": _mark(row.verdict),
                "time": time.strftime("%Y-%m-%d %H:%M", time.localtime(row.time)),
            }
            for row in chosen[start : start + ROWS_OF_PAGE]
        ],
        elsewhere=[row for row in rows if row.busy and row.folder not in {job.run for job in jobs}],
        count=counted(len(chosen), "run"),
        kinds=kinds,
        kind=kind,
        before=start - ROWS_OF_PAGE if start else None,
        after=start + ROWS_OF_PAGE if start + ROWS_OF_PAGE < len(chosen) else None,
        jobs=[_shown(job) for job in jobs],
        scripts=scripts,
        roots=roots,
        pythons=pythons,
        options=OPTIONS,
        form=form,
        root=root,
        wrong=wrong,
        fields=defaultdict(str, fields or {}),
    )


def live(job: Job, *, run: str, form: str, root: str) -> str:
    """Renders a bisection of this dashboard, running or over; ``run`` is the address of its run's page."""
    return _live(
        job,
        title=job.script.name,
        about=f"bisection of {job.script}",
        mark=_shown(job)["mark"],
        command=command_line("accel-lab", *job.words),
        at=f"{root}/jobs/{job.identity}",
        stop="Take it out of the queue" if job.state is State.WAITING else "Stop",
        run=run,
        form=form,
        root=root,
    )


def followed(followed: FollowedRun, row: Row, *, root: str) -> str:
    """Renders a run of another process, running or over."""
    return _live(
        followed,
        title=row.name,
        about=f"{row.kind} run in {row.folder.parent}",
        mark=_STATES[followed.state],
        command=followed.command,
        at=f"{root}{row.url}/live",
        stop="",
        run=root + row.url,
        form="",
        root=root,
    )


def _live(live: Live, *, stop: str, **words: str) -> str:
    state = live.state  # before the lines: none are added once it is over
    return _page(
        "live.html.j2",
        state=state.value,
        over=state is State.OVER,
        waiting=state is State.WAITING,
        said=live.said,
        seconds=seconds_in_words(live.seconds) if live.started is not None else "",
        lines=live.lines(),
        running=live.running(),
        result=printable(live.result()) if state is State.OVER else "",
        stop=stop if state is not State.OVER else "",
        **words,
    )


def run_page(
    row: Row,
    said: KeptRun | None,
    files: Sequence[RunFile],
    *,
    more: bool,
    user: str,
    live_at: str,
    root: str,
) -> str:
    """Renders one run: its result, its page and its files.

    ``user`` is the process that uses it. ``live_at`` is the address of its live page, which shows the
    progress after its end too.
    """
    base = f"{root}{row.url}/files/"
    by_group: dict[str, list[RunFile]] = {}
    for file in files:
        by_group.setdefault(file.group, []).append(file)
    lines = said.lines[:_MOST_LINES] if said is not None else ()
    own = [file.path for file in by_group.get("", ())]
    return _page(
        "run.html.j2",
        row=row,
        mark=_mark(row.verdict),
        torch=said.torch if said is not None else "",
        time=time.strftime("%Y-%m-%d %H:%M", time.localtime(row.time)),
        base=base,
        root=root,
        page=next(
            (name for name in (said.page if said is not None else "", "index.html") if name in own), ""
        ),
        bundle="bundle.zip" if "bundle.zip" in own else "",
        head=joint.HEAD,
        lines=[
            (
                " on ".join(filter(None, (line.model, line.backend))),
                joint.constraints(line),
                joint.accuracy(line),
                joint.stage(line),
                ", ".join(filter(None, (line.verdict, joint.time(line)))),
            )
            for line in lines
        ],
        pictures=_pictures(files),
        groups=[
            {
                "title": _GROUPS.get(name, name),
                "name": name,
                "files": sorted(found, key=lambda file: file.path),
                "bytes": sum(file.size for file in found),
                "open": not name or (name in _GROUPS and name not in _CLOSED and len(found) <= 12),
            }
            for name, found in sorted(
                by_group.items(), key=lambda item: (item[0] in _CLOSED, item[0] not in _GROUPS, item[0])
            )
        ],
        more=more,
        user=user,
        live_at=live_at,
        commands=_commands(row),
    )


def _pictures(files: Sequence[RunFile]) -> list[RunFile]:
    """Returns the pictures of a run; a picture in two formats only once."""
    found = [file for file in files if file.suffix in _PICTURES and file.group in _SHOWN]
    return list({file.path.rsplit(".", 1)[0]: file for file in reversed(found)}.values())[::-1][
        :_MOST_PICTURES
    ]


def message(title: str, text: str, *, root: str) -> str:
    """Renders a page with one message."""
    return _page("message.html.j2", title=title, text=text, root=root)


def _shown(job: Job) -> dict[str, Any]:
    failed = job.exit_code not in (0, 1, 125, None) or (job.state is State.OVER and job.exit_code is None)
    return {
        "identity": job.identity,
        "script": job.script.name,
        "path": str(job.script),
        "state": job.state.value,
        "mark": "different" if failed else _STATES[job.state],
        "said": job.said,
        "seconds": seconds_in_words(job.seconds) if job.started is not None else "",
    }


def _commands(row: Row) -> list[str]:
    """Returns the commands for a run that a user can only type on a terminal."""
    found = [command_line("accel-lab", "report", row.folder)] if row.kind in ("bisect", "minimize") else []
    if row.busy:
        return []
    if row.verdict == UNFINISHED and row.kind in ("bisect", "minimize"):
        found = [command_line("accel-lab", row.kind, "--resume", row.folder)]
    return [*found, command_line("accel-lab", "clean", row.folder)]


def _mark(verdict: str) -> str:
    return next((mark for words, mark in _MARKS if re.match(words, verdict)), "skip")


def _mb(size: float) -> str:
    if size < 1e3:
        return counted(int(size), "byte")
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
