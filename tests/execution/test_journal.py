"""The journal: nothing finished is lost, a torn line is dropped, writes are atomic."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import PROTOCOL, Probe, Program
from accel_lab.execution.journal import Journal, write_atomic
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.workspace import Workspace

DONE = Outcome(status=Status.OK, exit_code=0, seconds=1.5)


def test_answers_survive(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.started("a", "one")
    journal.ended("a", DONE)
    journal.started("b", "two")
    journal.close()
    again = Journal(tmp_path / "j")
    assert again.answer("a") == DONE
    assert again.answer("b") is None
    assert again.answered == 1


def test_a_torn_last_line_is_dropped_and_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.ended("a", DONE)
    journal.close()
    path.write_bytes(path.read_bytes() + b'{"event": "ended", "key": "b", "outc')
    again = Journal(path)
    assert again.answer("a") == DONE and again.answer("b") is None
    again.ended("c", DONE)
    again.close()
    assert Journal(path).answer("c") == DONE


def test_write_atomic_replaces_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomic(path, "old")
    write_atomic(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def other_protocol(path: Path, number: int | None) -> None:
    """Let a journal be one that another version of the lab wrote: with another number, or with none."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0] == {"event": "protocol", "protocol": PROTOCOL}
    rows[:1] = [] if number is None else [{"event": "protocol", "protocol": number}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("number", [None, PROTOCOL + 1])
def test_answers_of_another_protocol_are_read_but_not_used(tmp_path: Path, number: int | None) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.ended("a", DONE)
    journal.close()
    other_protocol(path, number)
    reading = Journal(path, replay=True)
    assert reading.answer("a") == DONE and reading.outdated is None
    resumed = Journal(path)
    assert resumed.answer("a") is None and resumed.outdated == (number or 0)
    resumed.ended("b", DONE)
    resumed.close()
    for replay in (False, True):
        again = Journal(path, replay=replay)
        assert (again.answer("a"), again.answer("b"), again.outdated) == (None, DONE, None)


def test_a_run_of_another_protocol_gets_a_child_of_today_and_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    events: list[str] = []

    def ask(attempt: int) -> Path:
        workspace = Workspace(tmp_path / "run", tmp_path)
        with Prober(
            python=sys.executable,
            workspace=workspace,
            listener=lambda event, probe, outcome: events.append(event),
        ) as prober:
            program = Program(path=str(script))
            assert prober.ask(Probe(program=program, bare=True, attempt=attempt)).status is Status.OK
        return workspace.library

    old = ask(0) / "of_the_old_lab.py"
    old.touch()
    ask(0)
    assert events == ["start", "end", "cached"] and old.exists()
    other_protocol(tmp_path / "run" / "journal.jsonl", PROTOCOL + 1)
    assert (ask(0) / "protocol" / "job.py").exists()
    assert events[3:] == ["anew", "start", "end"] and not old.exists()
    ask(0)
    assert events[6:] == ["cached"]
