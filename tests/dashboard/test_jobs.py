"""Bisections that the page started: one at a time, seen line by line, stopped, ended with the dashboard."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from accel_lab.cli.probe_words import question
from accel_lab.cli.progress import Progress
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.dashboard.events import first_wanted
from accel_lab.dashboard.jobs import MOST_WAITING
from accel_lab.dashboard.journal_tail import JournalTail
from accel_lab.dashboard.progress_lines import MOST_LINES, ProgressLines, read_line
from fakes_dashboard import ENDS, LINES, WAITS, awaited, dashboard, read, start


def test_a_bisection_is_started_watched_and_told(tmp_path: Path) -> None:
    with dashboard(tmp_path, ENDS) as board:
        address = start(board)
        (job,) = board.jobs.all()
        awaited(job, "over", len(LINES))
        assert job.exit_code == 1 and "reproduced" in job.said
        assert job.words[-3:] == (str(board.root / "script.py"), "--x", "1")
        page = board.client().get(address).text
        assert "plain run" in page and "&lt;script&gt;alert(1)" in page and "<script>alert" not in page
        assert "the result &lt;b&gt;of it" in page and "script.py" in board.client().get("/").text
        events = read(board.client().get(f"{address}/events").text)
        assert [event["event"] for event in events] == ["line"] * len(LINES) + ["now", "end"]
        assert [event["id"] for event in events if event["event"] == "line"] == ["1", "2", "3", "4"]
        assert events[-1]["data"]["exit_code"] == 1


def test_who_comes_back_gets_what_they_missed(tmp_path: Path) -> None:
    with dashboard(tmp_path, ENDS) as board:
        address = start(board)
        awaited(board.jobs.all()[0], "over", len(LINES))
        cases: list[tuple[dict[str, str], str, int]] = [
            ({}, "", 1),
            ({"last-event-id": "2"}, "", 3),
            ({"last-event-id": "2"}, "?after=4", 3),
            ({}, "?after=3", 4),
            ({"last-event-id": "x"}, "?after=-1", 1),
        ]
        for headers, query, first in cases:
            events = read(board.client().get(f"{address}/events{query}", headers=headers).text)
            ids = [int(event["id"]) for event in events if event["event"] == "line"]
            assert ids == list(range(first, len(LINES) + 1)), (headers, query)


@pytest.mark.parametrize("said", ["", "-1", "1.5", "²", "9" * 40, "x"])
def test_an_event_id_that_cannot_be_meant_is_none(said: str) -> None:
    assert first_wanted(said, None) == 0 and first_wanted(None, said) == 0


def test_a_bisection_is_stopped_as_by_ctrl_c(tmp_path: Path) -> None:
    with dashboard(tmp_path, WAITS) as board:
        address = start(board)
        job = awaited(board.jobs.all()[0], "running", len(LINES))
        assert "Stop" in board.client().get(address).text
        answer = board.client().post(f"{address}/stop", data=board.form())
        assert answer.status_code == 303 and answer.headers["location"] == board.access.root + address
        awaited(job, "over")
        assert job.exit_code == 130 and "kept" in job.said
        assert job.lines()[-1].text.startswith("interrupted; go on with")
        with pytest.raises(ProcessLookupError):
            os.kill(job.pid, 0)


def test_one_runs_and_a_few_wait(tmp_path: Path) -> None:
    with dashboard(tmp_path, WAITS) as board:
        addresses = [start(board) for _ in range(MOST_WAITING + 1)]
        jobs = board.jobs.all()[::-1]
        awaited(jobs[0], "running", len(LINES))
        answer = None
        while answer is None or answer.status_code == 303:  # the first may not have begun when others came
            answer = board.client().post("/jobs", data=board.form())
        assert answer.status_code == 429 and "wait already" in answer.text
        assert [job.state.value for job in jobs[1:]] == ["waiting"] * MOST_WAITING
        board.client().post(f"{addresses[1]}/stop", data=board.form())
        assert jobs[1].state.value == "over" and "queue" in jobs[1].said and jobs[1].started is None
        board.client().post(f"{addresses[0]}/stop", data=board.form())
        awaited(jobs[2], "running")
        assert jobs[0].exit_code == 130
    assert all(job.state.value == "over" for job in jobs)
    with pytest.raises(ProcessLookupError):
        os.kill(jobs[2].pid, 0)


def test_a_program_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dashboard(tmp_path) as board:
        monkeypatch.setattr(board.jobs, "_command", lambda words: [str(tmp_path / "none"), *words])
        start(board)
        job = awaited(board.jobs.all()[0], "over")
        assert "cannot start" in job.said and job.exit_code is None


def test_the_lines_are_those_that_the_command_line_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written by the real listener, so that a change of its form is seen here."""
    progress, probe = Progress(quiet=False), Probe(program=Program(path="x.py"))
    progress.phase("stage: 6 rungs", 125.0)
    progress("end", probe, Outcome(status=Status.OK, seconds=2.5))
    progress("end", probe, Outcome(status=Status.EXIT, exit_code=3, seconds=1234.0))
    progress("cached", probe, Outcome(status=Status.REFUSED))
    progress.smaller("a statement", 12, "x = 1")
    progress.release("judged", "2.5.1", "bad")
    progress.say("the bundle is run")
    (tmp_path / "err.txt").write_text(capsys.readouterr().err)
    lines = ProgressLines(tmp_path / "err.txt").read()
    assert [(line.kind, line.count, line.took) for line in lines] == [
        ("phase", "", ""),
        ("good", "1", "2.5 s"),
        ("bad", "2", "1234.0 s"),
        ("na", "3", "known"),
        ("smaller", "", ""),
        ("note", "", ""),
        ("text", "", ""),
    ]
    assert lines[1].result == "completes" and lines[2].result.startswith("fails: ")
    assert lines[1].text == lines[3].text == question(probe)
    assert [lines[place].text for place in (0, 4, 5)] == [
        "stage: 6 rungs (at most 2 min 05 s more)",
        "1 lines after 12 candidates: a statement",
        "torch 2.5.1: bad",
    ]


def test_lines_are_read_once_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "err.txt"
    lines = ProgressLines(path)
    assert lines.read() == []
    path.write_text("one\ntw")
    assert [line.text for line in lines.read()] == ["one"]
    with path.open("a") as file:
        file.write("o\n\nthree \x1b[31mred\u202e")
    assert [line.text for line in lines.read()] == ["one", "two"]
    assert [line.text for line in lines.read(whole=True)] == ["one", "two", "three red\\u202e"]
    assert [line.number for line in lines.read()] == [1, 2, 3]


def test_no_flood_of_lines_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "err.txt"
    path.write_text("x\n" * (MOST_LINES + 10) + "y" * 100_000 + "\n")
    assert len(ProgressLines(path).read()) == MOST_LINES
    assert len(read_line(1, "y" * 100_000).text) == 2000


def test_what_runs_is_read_from_the_journal(tmp_path: Path) -> None:
    journal = JournalTail(tmp_path)
    assert journal.running() == []
    rows = [
        {"event": "running", "key": "a", "label": "plain run"},
        {"event": "running", "key": "b", "label": "kernel\x1b[31m"},
        {"event": "ended", "key": "a", "outcome": {}},
        {"event": "ended", "key": "z"},
        {"event": 1},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows) + "no JSON\n"
    (tmp_path / "journal.jsonl").write_text(text + '{"event": "ended", "k')
    assert journal.running() == ["kernel"]
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('ey": "b"}\n')
    assert journal.running() == []
