"""The first program of a container, run here without one: it says exactly how its command ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import accel_lab

SOURCE = Path(accel_lab.__file__).with_name("child") / "container_init.py"


class Inside:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        for path in (self.out, self.err):
            path.write_bytes(b"")

    def command(self, *command: str, **changes: str) -> list[str]:
        plan = {
            "command": list(command),
            "stdin": "",
            "stdout": str(self.out),
            "stderr": str(self.err),
            "token": "the-token",
            **changes,
        }
        return [sys.executable, "-I", "-S", "-c", SOURCE.read_text("utf-8"), json.dumps(plan)]

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder / "home")}

    def run(self, *command: str, **changes: str) -> tuple[dict[str, Any], int]:
        """What it reports, and its own exit code."""
        done = subprocess.run(
            self.command(*command, **changes), env=self.env, capture_output=True, text=True, check=False
        )
        return report(done.stdout), done.returncode


def report(log: str) -> dict[str, Any]:
    (line,) = (line for line in log.splitlines() if line.startswith("the-token "))
    found: dict[str, Any] = json.loads(line.removeprefix("the-token "))
    return found


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


@pytest.mark.parametrize("code", [0, 1, 125, 127, 139])
def test_an_exit_code_is_reported(inside: Inside, code: int) -> None:
    found, status = inside.run(sys.executable, "-c", f"raise SystemExit({code})")
    assert found["exit_code"] == status == code
    assert "signal" not in found
    assert found["peak_mb"] > 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_is_reported(inside: Inside, number: signal.Signals) -> None:
    found, status = inside.run(sys.executable, "-c", f"import os; os.kill(os.getpid(), {number.value})")
    assert found["signal"] == number
    assert "exit_code" not in found
    assert status == 128 + number


def test_signals_that_python_ignores_are_not_ignored_by_the_command(inside: Inside) -> None:
    found, _ = inside.run("/bin/sh", "-c", "kill -PIPE $$; exit 3")
    assert found["signal"] == signal.SIGPIPE


def test_a_missing_program_is_an_error_and_not_a_code(inside: Inside) -> None:
    found, _ = inside.run("/no/such/program")
    assert "cannot start '/no/such/program': No such file" in found["error"]
    assert "exit_code" not in found


def test_files_that_cannot_be_opened_are_an_error(inside: Inside) -> None:
    found, _ = inside.run("true", stdout=str(inside.folder / "none" / "out.txt"))
    assert "cannot open" in found["error"]


def test_streams_go_to_their_files_and_not_to_the_log(inside: Inside) -> None:
    (inside.folder / "in.txt").write_text("hello")
    inside.out.write_text("before ")
    done = subprocess.run(
        inside.command("/bin/sh", "-c", "cat; echo bad >&2", stdin=str(inside.folder / "in.txt")),
        env=inside.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert inside.out.read_text() == "before hello"  # what is there is appended to
    assert inside.err.read_text() == "bad\n"
    assert "hello" not in done.stdout
    assert done.stderr == ""


def test_without_a_file_there_is_nothing_to_read(inside: Inside) -> None:
    inside.run("/bin/sh", "-c", "cat; echo end")
    assert inside.out.read_text() == "end\n"


@pytest.mark.parametrize(
    ("number", "text", "want"),
    [
        (signal.SIGTERM, "import time; print('up', flush=True); time.sleep(60)", {"signal": signal.SIGTERM}),
        (
            signal.SIGUSR1,
            "import signal, sys, time; signal.signal(10, lambda *a: sys.exit(4)); print('up', flush=True)\n"
            "time.sleep(60)",
            {"exit_code": 4},
        ),
        # Without a handler a request for stacks would end it, and that is not what it is for.
        (signal.SIGUSR1, "import time; print('up', flush=True); time.sleep(1)", {"exit_code": 0}),
    ],
)
def test_signals_are_handed_on(
    inside: Inside, number: signal.Signals, text: str, want: dict[str, int]
) -> None:
    started = subprocess.Popen(
        inside.command(sys.executable, "-c", text), env=inside.env, stdout=subprocess.PIPE, text=True
    )
    while not inside.out.read_text():
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(number)
    found = report(started.communicate()[0])
    assert {key: found[key] for key in ("signal", "exit_code") if key in found} == want


def test_it_ends_with_the_other_end_of_its_standard_input(inside: Inside) -> None:
    """So does the container: the lab is gone."""
    lab = subprocess.Popen(
        inside.command(sys.executable, "-S", "-c", "import time; time.sleep(60)", held="yes"),
        env=inside.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert lab.stdin is not None
    lab.stdin.close()
    assert lab.wait(30) == 128 + signal.SIGKILL
    assert lab.stdout is not None
    lab.stdout.close()


def test_while_it_is_held_signals_are_forwarded_as_ever(inside: Inside) -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); "
    code += "print('up', flush=True); time.sleep(60)"
    lab = subprocess.Popen(
        inside.command(sys.executable, "-S", "-c", code, held="yes"),
        env=inside.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    until = time.monotonic() + 30
    while not inside.out.read_bytes() and time.monotonic() < until:
        time.sleep(0.02)
    lab.send_signal(signal.SIGTERM)
    assert lab.wait(30) == 7
    assert lab.stdout is not None
    assert report(lab.stdout.read().decode())["exit_code"] == 7
    for stream in (lab.stdin, lab.stdout):
        if stream is not None:
            stream.close()
