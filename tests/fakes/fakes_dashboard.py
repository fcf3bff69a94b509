"""A dashboard over a folder of its own, asked without a network, with a small program in bisect's place."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from starlette.testclient import TestClient

import accel_lab.dashboard
import fakes_kept
from accel_lab.cli.commands.runs_command import described
from accel_lab.dashboard.access import Access
from accel_lab.dashboard.app import application
from accel_lab.dashboard.jobs import Job, Jobs
from accel_lab.dashboard.places import Places, places
from accel_lab.dashboard.runs import Runs

SCHEMA = json.loads(Path(accel_lab.dashboard.__file__).with_name("events.schema.json").read_text("utf-8"))
PORT = 8417
ORIGIN = f"http://127.0.0.1:{PORT}"
PYTHON = "/usr/bin/python-of-a-test"
SECRET = "nobody may read this"
#: What the program in bisect's place prints; the lines are those of ``cli.progress``.
LINES = (
    "✓   1 plain run                                             6.1 s  completes",
    "✗   2 <script>alert(1)</script>                            12.0 s  fails: RuntimeError: no",
    "… minimizing (at most 2 min 00 s more)",
    "▼    9 lines after 31 candidates  statement dropped",
)
_START = "import signal, sys, time, os\n"
_SAY = "\n".join(f"print({line!r}, file=sys.stderr, flush=True)" for line in LINES) + "\n"
#: Ends by itself; works until it is interrupted, and then says so as bisect does.
ENDS = _START + _SAY + "print('the result <b>of it</b>')\nsys.exit(1)\n"
WAITS = (
    _START
    + textwrap.dedent(
        """
    def end(*_):
        print("interrupted; go on with: accel-lab bisect --resume RUN", file=sys.stderr, flush=True)
        os._exit(130)
    signal.signal(signal.SIGINT, end)
    """
    )
    + _SAY
    + "time.sleep(600)\n"
)


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """The application with what it is made of. ``base`` holds runs, ``root`` scripts."""

    app: Any
    access: Access
    jobs: Jobs
    places: Places
    base: Path
    root: Path

    def client(self, *, entered: bool = True) -> TestClient:
        """A browser on this machine, with the cookie if it has ``entered``."""
        base = ORIGIN + self.access.root
        made = TestClient(self.app, base_url=base, headers={"origin": ORIGIN}, follow_redirects=False)
        if entered:
            assert made.get(f"{ORIGIN}/", params={"token": self.access.token}).status_code == 200
        return made

    def form(self, **fields: str) -> dict[str, str]:
        """The fields of a form of its page."""
        return {"form": self.access.form, "script": "script.py", **fields}


@contextmanager
def dashboard(folder: Path, program: str = ENDS, port: int = PORT) -> Iterator[Dashboard]:
    """A dashboard whose bisections are runs of ``program``; closed at the end."""
    home, root = folder / "home", folder / "scripts"
    for place in (home / "runs", home / "bench", root, folder / "output"):
        place.mkdir(parents=True)
    (root / "script.py").write_text("print(1)\n")
    fakes_kept.write_all(home / "runs")
    fakes_kept.write_bisection(home / "runs" / "kept-bisect")
    where = places((root,), {"runs": home / "runs", "bench": home / "bench"}, (PYTHON, "/usr/bin/other"))
    access = Access(port=port)

    def command(words: Sequence[str]) -> list[str]:
        return [sys.executable, "-S", "-c", program, *words]

    jobs = Jobs(folder=folder / "output", new_runs=where.new_runs, cwd=root, command=command)
    app = application(access, where, Runs(where.runs, described), jobs, lambda error: f"mistake: {error!r}")
    try:
        yield Dashboard(app=app, access=access, jobs=jobs, places=where, base=home / "runs", root=root)
    finally:
        jobs.close()


def awaited(job: Job, state: str, lines: int = 0) -> Job:
    """The job once it is in a state and has printed so many lines; waits as long as the test may take."""
    for _ in range(1200):
        if job.state.value == state and len(job.lines()) >= lines:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{job.state}, {job.said}, {job.lines()}")


def start(board: Dashboard) -> str:
    """Start a bisection from the page; the address of its page."""
    answer = board.client().post("/jobs", data=board.form(arguments="--x 1"))
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix(board.access.root)


def read(stream: str) -> list[dict[str, Any]]:
    """The events of a stream; the data of each must have its shape."""
    found = []
    for block in stream.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            event = {**fields, "data": json.loads(fields["data"])}
            jsonschema.validate({event["event"]: event["data"]}, SCHEMA)
            found.append(event)
    return found
