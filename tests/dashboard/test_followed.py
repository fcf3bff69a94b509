"""Runs that another process works in: found by their lock, followed by their files, not stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accel_lab.cli.commands.runs_command import kept_runs
from accel_lab.cli.progress import Progress
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.dashboard.followed import FollowedRun
from accel_lab.dashboard.live import State
from accel_lab.execution.run_folder import progress_file
from accel_lab.execution.run_folder.lock import NAME as LOCK
from accel_lab.execution.run_folder.lock import held, holder, user_of
from accel_lab.execution.run_folder.marker import mark
from accel_lab.execution.run_folder.progress_file import NAME, ProgressFile
from fakes_dashboard import WAITS, Dashboard, awaited, dashboard, read, start


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Dashboard]:
    with dashboard(tmp_path) as made:
        yield made


def unfinished(board: Dashboard, name: str = "going") -> Path:
    """The folder of a bisection that has no result yet."""
    folder = board.base / name
    folder.mkdir()
    mark(folder, "bisect")
    row = {"event": "running", "key": "a", "label": "kernel <b>"}
    (folder / "journal.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def tell(progress: Progress) -> None:
    probe = Probe(program=Program(path="x.py"))
    progress.phase("stage: 6 rungs", None)
    progress("end", probe, Outcome(status=Status.OK, seconds=2.5))
    progress.say("<script>alert(1)</script>")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_run_of_a_terminal_is_watched_like_one_of_the_page(board: Dashboard, quiet: bool) -> None:
    folder = unfinished(board)
    page, live = "/runs/runs/going", "/runs/runs/going/live"
    with held(folder):
        tell(Progress(quiet=quiet, folder=folder))
        home = board.client().get("/").text
        assert "Running, started elsewhere" in home and f"{board.access.root}{live}" in home
        assert ">running<" in home and "Watch it" in board.client().get(page).text
        text = board.client().get(live).text
        assert "stage: 6 rungs" in text and "&lt;script&gt;alert(1)" in text and "<script>alert" not in text
        assert "kernel &lt;b&gt;" in text and f'data-events="{board.access.root}{live}/events"' in text
        assert f"kill -INT {os.getpid()}" in text and "<button" not in text
        followed = FollowedRun(folder)
        assert followed.state is State.RUNNING and 0 <= followed.seconds < 3600
        assert followed.running() == ["kernel <b>"]
    assert followed.state is State.OVER and followed.running() == [] and followed.seconds == 0
    events = read(board.client().get(f"{live}/events?after=1").text)
    assert [event["event"] for event in events] == ["line", "line", "now", "end"]
    assert [event["id"] for event in events[:2]] == ["2", "3"] and events[0]["data"]["kind"] == "good"
    assert "without writing its result" in events[-1]["data"]["said"]
    assert "Its progress" in board.client().get(page).text
    assert "Running, started elsewhere" not in board.client().get("/").text


def test_a_finished_run_says_its_verdict(board: Dashboard) -> None:
    folder = board.base / "kept-bisect"
    tell(Progress(quiet=True, folder=folder))
    said = FollowedRun(folder).said
    assert said.startswith("It has ended: ") and "fails" in said
    assert said.split(": ")[1] in board.client().get("/runs/runs/kept-bisect/live").text


def test_a_bisection_of_the_page_has_its_own_page(tmp_path: Path) -> None:
    with dashboard(tmp_path, WAITS) as board:
        folder = unfinished(board)
        address = start(board)
        job = awaited(board.jobs.all()[0], "running")
        job.run = folder
        with held(folder):
            answer = board.client().get("/runs/runs/going/live")
            assert answer.status_code == 303 and answer.headers["location"].endswith(address)
            assert "Running, started elsewhere" not in board.client().get("/").text


def test_no_stop_is_known_for_a_run_of_somebody_else(board: Dashboard) -> None:
    with held(unfinished(board)):
        answer = board.client().post("/runs/runs/going/live/stop", data=board.form())
        assert answer.status_code == 404


def test_a_run_that_was_killed_is_not_running(board: Dashboard) -> None:
    """Its lock's file is still there, and names a process that lives."""
    folder = unfinished(board)
    (folder / LOCK).write_text(json.dumps({"pid": os.getpid(), "command": "accel-lab bisect x.py"}))
    assert user_of(folder) is None and FollowedRun(folder).state is State.OVER
    assert "Running, started elsewhere" not in board.client().get("/").text
    assert (folder / LOCK).read_text().startswith("{")


@pytest.mark.parametrize(
    "said",
    [
        {"pid": -1, "command": 3, "since": -5},
        {"pid": True, "since": True},
        {"pid": 2**40, "command": "x\x1b[31m\n" * 400, "since": 2**60},
        [1],
    ],
)
def test_what_a_lock_says_is_a_strangers_word(board: Dashboard, said: Any) -> None:
    folder = unfinished(board)
    with held(folder):
        (folder / LOCK).write_text(json.dumps(said))
        user = user_of(folder)
        assert user is not None and user.pid is None and user.since is None
        assert len(user.command) <= 160 and user.command.isprintable()
        assert "kill" not in holder(folder) and "kill" not in board.client().get("/runs/runs/going/live").text


@pytest.mark.parametrize("name", [NAME, LOCK])
@pytest.mark.parametrize("make", ["link", "pipe", "folder"])
def test_what_is_no_file_is_neither_read_nor_waited_for(board: Dashboard, name: str, make: str) -> None:
    folder, other = unfinished(board), board.root / "script.py"
    before = other.read_bytes()
    path = folder / name
    made = {"link": lambda: path.symlink_to(other), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}
    made[make]()
    ProgressFile(folder).write("a line")
    assert other.read_bytes() == before and user_of(folder) is None
    assert board.client().get("/runs/runs/going/live").status_code == 200


def test_the_list_says_what_runs(tmp_path: Path) -> None:
    with dashboard(tmp_path) as board:
        folder = unfinished(board)
        with held(folder):
            rows = {row["name"]: row["verdict"] for row in kept_runs(board.base)}
        assert rows["going"] == "running"
        assert {row["name"]: row["verdict"] for row in kept_runs(board.base)}["going"] == "unfinished"


def test_the_file_of_progress_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_file, "MOST_BYTES", 100)
    for _ in range(3):  # as by a run that is resumed
        file = ProgressFile(tmp_path)
        for number in range(10):
            file.write(f"line {number}\nof \x1b[31mtwo")
        file.close()
        file.write("after its end")
    text = (tmp_path / NAME).read_text()
    assert len(text) <= 100 and text.startswith("line 0 of two\nline 1 of two\n") and "after" not in text


def test_a_folder_that_is_not_to_be_written_to_ends_no_run(tmp_path: Path) -> None:
    tell(Progress(quiet=True, folder=tmp_path / "none"))
