"""The journal: nothing finished is lost, a torn line is dropped, writes are atomic."""

from __future__ import annotations

from pathlib import Path

from accel_lab.core.outcome import Outcome, Status
from accel_lab.execution.journal import Journal, write_atomic

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
