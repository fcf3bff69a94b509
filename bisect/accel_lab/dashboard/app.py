"""The web application: its routes and their handlers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from accel_lab.execution.run_folder.lock import holder
from accel_lab.execution.run_folder.marker import made_by
from accel_lab.execution.run_folder.progress_file import NAME as PROGRESS
from accel_lab.reporting.page import joint as joint_page
from accel_lab.reporting.runs.joint import joint
from accel_lab.reporting.runs.kept_run import UNFINISHED, KeptRun, kept_run

from . import pages
from .access import UNTRUSTED_PAGE, Access, Gate
from .events import events, first_wanted
from .followed import FollowedRun
from .forms import Misused, bisection_of, read_form
from .jobs import Full, Job, Jobs
from .live import Live, State
from .places import NotThere, Places, scripts
from .runs import Row, Runs, files_of, served

_MOST_JOINED = 100


def application(
    access: Access, places: Places, runs: Runs, jobs: Jobs, mistake: Callable[[Exception], str]
) -> ASGIApp:
    """Returns the dashboard behind its gate. ``mistake`` turns an unexpected exception into a line."""
    board = Board(access, places, runs, jobs)
    routes = [
        Route("/", board.home),
        Route("/live.js", board.script),
        Route("/jobs", board.start, methods=["POST"]),
        Route("/jobs/{job}", board.job),
        Route("/jobs/{job}/stop", board.stop, methods=["POST"]),
        Route("/jobs/{job}/events", board.events),
        Route("/joint", board.joint),
        Route("/runs/{base}/{name}", board.run),
        Route("/runs/{base}/{name}/live", board.followed),
        Route("/runs/{base}/{name}/live/events", board.followed_events),
        Route("/runs/{base}/{name}/files/{path:path}", board.file),
    ]
    found: dict[type[Exception], Callable[[Request, Exception], Response]] = {
        NotThere: lambda request, error: _message(request, "Not there", str(error), 404),
        Misused: lambda request, error: _message(
            request, "Not understood", str(error), getattr(error, "status", 400)
        ),
        Full: lambda request, error: _message(request, "Not now", f"{error}.", 429),
        HTTPException: _http_error,
        Exception: lambda request, error: _message(request, "Internal error", f"{mistake(error)}.", 500),
    }
    return Gate(Starlette(routes=routes, exception_handlers=found), access)


def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _message(
        request, "Not there" if status == 404 else "Not possible", "There is no such page.", status
    )


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status_code=status, headers={"content-security-policy": pages.policy()})


def _message(request: Request, title: str, text: str, status: int) -> Response:
    return _html(pages.message(title, text, root=request.scope["root_path"]), status)


class Board:
    """The handlers; those that are not ``async`` each run in a thread."""

    def __init__(self, access: Access, places: Places, runs: Runs, jobs: Jobs) -> None:
        self._access, self._places, self._runs, self._jobs = access, places, runs, jobs

    def home(self, request: Request) -> Response:
        said = request.query_params
        start = said.get("start", "")
        return self._home(
            kind=said.get("kind", ""), start=int(start) if start.isdecimal() and len(start) < 8 else 0
        )

    def _home(
        self,
        *,
        kind: str = "",
        start: int = 0,
        wrong: str = "",
        fields: dict[str, str] | None = None,
        status: int = 200,
    ) -> Response:
        text = pages.home(
            rows=self._runs.rows(),
            jobs=self._jobs.all(),
            scripts=scripts(self._places.roots),
            roots=[str(root) for root in self._places.roots],
            pythons=self._places.pythons,
            form=self._access.form,
            root=self._access.root,
            kind=kind,
            start=start,
            wrong=wrong,
            fields=fields,
        )
        return _html(text, status)

    def script(self, request: Request) -> Response:
        return Response(pages.script(), media_type="text/javascript")

    async def start(self, request: Request) -> Response:
        fields = await self._form(request)
        try:
            script, words = bisection_of(fields, self._places)
        except (Misused, NotThere) as error:
            return self._home(wrong=str(error), fields=fields, status=400)
        job = self._jobs.add(words, script)
        return RedirectResponse(f"{self._access.root}/jobs/{job.identity}", status_code=303)

    async def stop(self, request: Request) -> Response:
        await self._form(request)
        job = self._job(request)
        self._jobs.stop(job)
        return RedirectResponse(f"{self._access.root}/jobs/{job.identity}", status_code=303)

    async def _form(self, request: Request) -> dict[str, str]:
        fields = await read_form(request)
        if not self._access.is_form(fields.pop("form", "")):
            raise Misused("This form is of another dashboard: open the page again.", 403)
        return fields

    def job(self, request: Request) -> Response:
        job = self._job(request)
        run = self._address(job.run) if job.run is not None else ""
        return _html(pages.live(job, run=run, form=self._access.form, root=self._access.root))

    def events(self, request: Request) -> Response:
        return self._events(request, self._job(request))

    def followed(self, request: Request) -> Response:
        row = self._row(request)
        job = self._job_of(row)
        if job is not None:
            return RedirectResponse(f"{self._access.root}/jobs/{job.identity}", status_code=303)
        return _html(pages.followed(FollowedRun(row.folder), row, root=self._access.root))

    def followed_events(self, request: Request) -> Response:
        return self._events(request, FollowedRun(self._row(request).folder))

    def _events(self, request: Request, live: Live) -> Response:
        after = first_wanted(request.headers.get("last-event-id"), request.query_params.get("after"))
        return EventSourceResponse(events(live, after, self._address))

    def _job_of(self, row: Row) -> Job | None:
        """Returns this dashboard's unfinished bisection in a run's folder, or None."""
        mine = (job for job in self._jobs.all() if job.run == row.folder and job.state is not State.OVER)
        return next(mine, None)

    def _job(self, request: Request) -> Job:
        job = self._jobs.get(request.path_params["job"])
        if job is None:
            raise NotThere("There is no such bisection here: its run is in the list of runs.")
        return job

    def _address(self, folder: Path) -> str:
        """Returns the address of a run folder's page; empty if it is not shown."""
        key = self._runs.key_of(folder)
        return f"{self._access.root}/runs/{quote(key)}" if key else ""

    def run(self, request: Request) -> Response:
        row = self._row(request)
        files, more = files_of(row.folder)
        watched = row.busy or any(file.path == PROGRESS for file in files)
        return _html(
            pages.run_page(
                row,
                kept_run(row.folder, made_by(row.folder)),
                files,
                more=more,
                user=holder(row.folder),
                root=self._access.root,
                live_at=f"{self._access.root}{row.url}/live" if watched else "",
            )
        )

    def _row(self, request: Request) -> Row:
        return self._runs.row(request.path_params["base"], request.path_params["name"])

    def file(self, request: Request) -> Response:
        found = served(self._row(request).folder, request.path_params["path"])
        headers = {"content-security-policy": UNTRUSTED_PAGE} if found.untrusted else {}
        if found.attached:
            name = os.path.basename(request.path_params["path"])
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        return Response(found.data, media_type=found.kind, headers=headers)

    def joint(self, request: Request) -> Response:
        keys = list(dict.fromkeys(request.query_params.getlist("run")))
        if not keys:
            raise Misused("Choose the runs to join first.")
        if len(keys) > _MOST_JOINED:
            raise Misused(f"Choose {_MOST_JOINED} runs at most.")
        rows = [self._runs.row(*(key.split("/", 1) if "/" in key else (key, ""))) for key in keys]
        data = joint([_kept(row) for row in rows])
        links = {str(row.folder): self._access.root + row.url for row in rows}
        text = joint_page.render(data, link=lambda run: links.get(run["folder"], ""))
        return HTMLResponse(text, headers={"content-security-policy": UNTRUSTED_PAGE})


def _kept(row: Row) -> KeptRun:
    kind = made_by(row.folder)
    said = kept_run(row.folder, kind)
    return said or KeptRun(name=row.name, kind=kind, folder=str(row.folder), verdict=UNFINISHED)
