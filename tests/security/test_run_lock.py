"""One lock a run folder: who comes second is told who is first, and what a killed lab left is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from accel_lab.cli.commands import bisect_command, bundle_command, clean_command, report_command
from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.execution.processes import leftovers, process_table
from accel_lab.execution.processes.guardian import GUARDIAN, RUN
from accel_lab.execution.processes.process import run
from accel_lab.execution.run_folder.lock import NAME, InUse, held, holder
from accel_lab.execution.run_folder.marker import mark

HOLD = """
import sys, time
from pathlib import Path
from accel_lab.execution.run_folder.lock import held
sys.argv[1:] = ["bisect", "a script.py"]
with held(Path({folder!r})):
    print("held", flush=True)
    time.sleep(60)
"""


def call(command: Any, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), standalone_mode=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "runs" / "run"
    made.mkdir(parents=True)
    mark(made, "run")
    script = tmp_path / "repro.py"
    script.write_text("1\n")
    from accel_lab.execution.programs import read_program
    from accel_lab.request import Request

    request = Request(program=read_program(str(script), None, ()))
    (made / "request.json").write_text(json.dumps(request.to_json()))
    (made / "report.json").write_text("{}")
    return made


@pytest.fixture
def live(folder: Path):
    """Another lab that works in the folder."""
    code = HOLD.format(folder=str(folder))
    lab = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert lab.stdout is not None
    assert lab.stdout.readline() == b"held\n"
    yield lab
    lab.kill()
    lab.wait()
    lab.stdout.close()


def test_a_second_lab_is_refused_in_one_line(folder: Path, live: Any) -> None:
    for command, words in (
        (bisect_command.command, ["--resume", str(folder)]),
        (report_command.command, [str(folder)]),
        (bundle_command.command, [str(folder)]),
        (clean_command.command, ["--yes", str(folder)]),
        (clean_command.command, ["--dry-run", str(folder)]),
    ):
        refused = call(command, *words).exception
        assert isinstance(refused, InUse), command
        assert refused.exit_code == 3
        (line,) = str(refused).splitlines()
        assert f"process {live.pid} (accel-lab bisect 'a script.py')" in line
        assert f"`kill {live.pid}`" in line
    assert (folder / "report.json").read_text() == "{}"
    assert f"process {live.pid}" in holder(folder)


def test_a_clean_of_all_keeps_a_live_run(folder: Path, live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(folder.parents[1]))
    done = call(clean_command.command, "--all", "--yes")
    assert done.exception is None
    assert done.output.startswith(f"kept {folder}: ")
    assert (folder / "request.json").is_file()


def test_the_lock_of_a_dead_lab_is_taken_over(folder: Path, live: Any) -> None:
    live.kill()
    live.wait()
    assert json.loads((folder / NAME).read_text())["pid"] == live.pid  # it is still there
    assert holder(folder) == ""
    with held(folder):
        assert json.loads((folder / NAME).read_text())["pid"] == os.getpid()
    assert not (folder / NAME).exists()


@pytest.mark.skipif(not process_table.HAVE_PROC, reason="looks into /proc")
def test_what_a_killed_lab_left_is_ended_with_its_lock_taken(folder: Path) -> None:
    """As if its guardian had been killed with it."""
    run_id = "ab" * 16
    nap = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    left = subprocess.Popen(nap, env={RUN: run_id}, start_new_session=True)
    other = subprocess.Popen(nap, env={RUN: "cd" * 16}, start_new_session=True)
    temporary = leftovers.temporary_folder(run_id)
    (temporary / "large").touch()
    try:
        (folder / NAME).write_text(json.dumps({"pid": 1, "run": run_id}))
        with held(folder) as mine:
            assert mine.ended == 1
        assert left.wait(60) in (-signal.SIGKILL, 0)  # 0: the lab has fetched its status before us
        assert other.poll() is None
        assert not temporary.exists()
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 4000,
        '{"run": 7}',
        '{"run": "*"}',
        '{"run": "../../x"}',
        '{"pid": "x", "run": null}',
    ],
)
def test_a_lock_file_that_anybody_wrote_ends_nothing(folder: Path, text: str) -> None:
    (folder / NAME).write_text(text)
    with held(folder) as mine:
        assert mine.ended == 0


def test_what_a_lock_file_says_is_shown_without_control_characters(folder: Path, live: Any) -> None:
    (folder / NAME).write_text(json.dumps({"pid": 7, "command": "\x1b]0;x\x07\nroot"}))
    assert holder(folder).isprintable()


def test_a_lock_is_never_written_through_a_link(folder: Path) -> None:
    victim = folder.parent / "victim"
    victim.write_text("mine")
    (folder / NAME).symlink_to(victim)
    with pytest.raises(LabError, match="cannot lock"), held(folder):
        pass
    assert victim.read_text() == "mine"


def test_a_folder_that_is_gone_is_not_made_again(folder: Path) -> None:
    with pytest.raises(LabError, match="removed"), held(folder / "gone"):
        pass
    assert not (folder / "gone").exists()


def test_the_same_thread_may_take_it_again_and_another_may_not(folder: Path) -> None:
    refused: list[BaseException] = []

    def other() -> None:
        try:
            with held(folder):
                pass
        except InUse as error:
            refused.append(error)

    with held(folder), held(folder):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    with held(folder):
        pass


def test_a_child_does_not_inherit_the_lock(folder: Path) -> None:
    with held(folder):
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        with held(folder):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(not process_table.HAVE_PROC, reason="reads /proc")
def test_every_child_carries_the_marker_of_the_run(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(os.environ['ACCEL_LAB_RUN'] != sys.argv[1])"
    ended = run(
        [sys.executable, "-S", "-c", code, GUARDIAN.run],
        cwd=tmp_path,
        env={},
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        limits=Limits(timeout_s=30),
        marker="x",
    )
    assert ended.exit_code == 0


@pytest.mark.skipif(not process_table.HAVE_PROC, reason="there is no guardian")
def test_a_guardian_that_was_killed_is_replaced(tmp_path: Path) -> None:
    def probe() -> int:
        code = "import os; print(os.getppid())"
        run(
            [sys.executable, "-S", "-c", code],
            cwd=tmp_path,
            env={},
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            limits=Limits(timeout_s=30),
            marker="x",
        )
        process = GUARDIAN._process
        assert process is not None
        return process.pid

    first = probe()
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 30
    while (second := probe()) == first and time.monotonic() < until:
        time.sleep(0.05)
    assert second != first
    assert process_table.read(second) is not None
