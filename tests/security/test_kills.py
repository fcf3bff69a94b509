"""A lab that is ended at any moment, by any signal, leaves no process, and its run can be finished."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import accel_lab
import fakes_interpreter
from accel_lab.execution.processes import guardian, process_table
from accel_lab.execution.run_folder.lock import NAME
from accel_lab.reporting.bundle.writer import write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from fakes_run import FakeRun

pytestmark = pytest.mark.skipif(not process_table.HAVE_PROC, reason="looks for leftovers in /proc")

PATIENCE_S = 120.0
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
#: So many kills with one of these signals the tests of this module are to make at the least.
FEWEST = 26
#: In the order in which a run comes to them, so that one run can be killed at each and then finished.
MOMENTS = ("plain", "cold kernel", "warm kernel", "warm loops", "reduction")
SCRIPT = """
import os


def f():
    if os.environ["FAKE_RUNG"] in ("", "kernel"):
        raise RuntimeError("the kernel is wrong")


f()
"""
#: How often a lab was ended by each signal with no process left.
kills: Counter[str] = Counter()


class Lab:
    """A lab of its own process, and all the processes that come of it, known by a folder's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stops = folder / "stops"
        self.stops.mkdir()
        # A run sees a copy of the script's folder: what it tells us lies elsewhere.
        self.script = folder / "work" / "repro.py"
        self.script.parent.mkdir()
        self.script.write_text(SCRIPT)
        self.python = fakes_interpreter.made(folder)
        self.env = {
            **os.environ,
            "FAKE_STOPS": str(self.stops),
            "ACCEL_LAB_HOME": str(folder / "home"),
            # Not more of it: files there that are called like Python's own modules make all runs cold.
            "PYTHONPATH": str(Path(accel_lab.__file__).parents[1]),
        }
        # One probe at a time: which of two that run side by side is answered first is chance.
        self.words = ["bisect", "-q", "--no-bundle", "--jobs", "1", "--minimize-for", "3s"]
        self.words += ["--python", str(self.python)]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        said = (self.folder / "said.txt").open("ab")
        command = [sys.executable, "-m", "accel_lab", *words]
        with said:
            return subprocess.Popen(
                command,
                env=self.env,
                cwd=self.script.parent,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def said(self) -> str:
        return (self.folder / "said.txt").read_text()

    def kill(self, number: int, moment: str, *words: str, how: str = "") -> int:
        """Start the lab, wait until it has come to the moment, end it; its exit status."""
        (self.stops / moment).write_text(how)
        lab = self.start(*words)
        try:
            wait_for((self.stops / "reached").exists, lambda: f"{moment} is never reached: {self.said()}")
            assert len(self.left()) > 2  # the lab, the stopped process, its daemon, the guardian
            os.kill(lab.pid, number)
            code = lab.wait(PATIENCE_S)
        finally:
            lab.kill()
            lab.wait()
            (self.stops / moment).unlink()
            (self.stops / "reached").unlink(missing_ok=True)
        wait_for(lambda: not self.left(), lambda: f"left after {moment}: {self.left()}")
        kills[signal.Signals(number).name] += 1
        return code

    def left(self) -> list[str]:
        """All processes that have the folder's name in their arguments or their environment."""
        found = []
        for process in process_table.table({os.getpid()}):
            told = [read(f"/proc/{process.pid}/{name}") for name in ("cmdline", "environ")]
            if process.alive and any(os.fsencode(self.stops) in text for text in told):
                found.append(f"{process.pid} {told[0].decode().split(chr(0))}")
        return found

    @property
    def run(self) -> Path:
        """The folder of the only run."""
        (found,) = (self.folder / "home" / "runs").iterdir()
        return found


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def wait_for(condition, complaint) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            pytest.fail(complaint())
        time.sleep(0.02)


def expected(number: int) -> int:
    return -number if number == signal.SIGKILL else 128 + number


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_run_that_is_ended_at_every_moment_leaves_nothing_and_is_finished(lab: Lab) -> None:
    """One run, ended at each moment by each signal and resumed every time."""
    words = [*lab.words, str(lab.script)]
    for moment in MOMENTS:
        for number in SIGNALS:
            assert lab.kill(number, moment, *words) == expected(number), lab.said()
            words = ["bisect", "-q", "--no-bundle", "--jobs", "1", "--resume", str(lab.run)]
    assert lab.start(*words).wait(PATIENCE_S) == 1, lab.said()
    assert (lab.run / "report.json").is_file()
    assert not (lab.run / NAME).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_cleared_its_environment_is_ended_too(lab: Lab, number: int) -> None:
    words = [*lab.words, "--no-minimize", "--no-workarounds", str(lab.script)]
    assert lab.kill(number, "cold kernel", *words, how="cleared") == expected(number)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
def test_a_single_run_leaves_nothing(lab: Lab, number: int) -> None:
    words = ["run", "--python", str(lab.python), str(lab.script)]
    assert lab.kill(number, "cold kernel", *words) == expected(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_users_own_check_is_ended_too(lab: Lab, number: int) -> None:
    check = f"{lab.python} check.py; exit 1"
    (lab.script.parent / "check.py").touch()
    words = [*lab.words, "--no-minimize", "--no-workarounds", "--check", check, str(lab.script)]
    lab.env["FAKE_CHECK"] = "check.py"
    assert lab.kill(number, "check", *words) == expected(number), lab.said()


@pytest.mark.torch
def test_a_real_warm_server_and_its_forks_are_ended(lab: Lab, torch_python: str) -> None:
    lab.script.write_text(
        "import os, sys, time\nimport torch\n"
        "parent = open(f'/proc/{os.getppid()}/cmdline').read()\n"
        f"if 'serve' in parent:\n    open({str(lab.stops / 'reached')!r}, 'w').close()\n"
        "    os.system('sleep 300')\n"
        "torch.compile(lambda x: 1 / 0)(torch.ones(2))\n"
    )
    words = [
        "bisect",
        "-q",
        "--no-bundle",
        "--no-minimize",
        "--no-workarounds",
        "--python",
        torch_python,
        str(lab.script),
    ]
    assert lab.kill(signal.SIGKILL, "anywhere", *words) == -signal.SIGKILL


@pytest.mark.parametrize("number", SIGNALS)
def test_a_bundle_that_is_verified_leaves_nothing(lab: Lab, number: int) -> None:
    """The lab starts rerun.py, that the bundle's script in a session of its own, and that a daemon."""
    text = (
        "import subprocess, sys, time\n"
        f"daemon = [sys.executable, '-S', '-c', {fakes_interpreter.NAP!r}, {str(lab.stops)!r}]\n"
        "subprocess.Popen(daemon, start_new_session=True)\n"
        f"open({str(lab.stops / 'reached')!r}, 'w').close()\ntime.sleep(300)\n"
    )
    made = FakeRun(lab.folder / "made", "kernel", script=text)
    bundle = lab.folder / "bundle.zip"
    write_bundle(made.findings, made.run_dir, bundle, redactor=Redactor())
    (lab.folder / "torch").mkdir()
    (lab.folder / "torch" / "__init__.py").touch()
    lab.env["PYTHONPATH"] = os.pathsep.join([str(lab.folder), lab.env["PYTHONPATH"]])
    words = ["verify", "--yes", "--provider", "local", "--python", sys.executable, str(bundle)]
    assert lab.kill(number, "script", *words) == expected(number), lab.said()


@pytest.mark.skipif(shutil.which("g++") is None, reason="the address sanitizer comes with g++")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_probe_with_the_sanitizer_in_it_is_ended(lab: Lab, number: int) -> None:
    lab.script.write_text(
        SCRIPT.replace('raise RuntimeError("the kernel is wrong")', "os.kill(os.getpid(), 11)")
    )
    words = [*lab.words, "--no-minimize", "--no-workarounds", str(lab.script)]
    assert lab.kill(number, "sanitized", *words) == expected(number), lab.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL])
def test_the_build_of_an_environment_leaves_nothing_and_is_made_by_the_next(lab: Lab, number: int) -> None:
    fake = lab.folder / "site" / "uv"
    fake.mkdir(parents=True)
    fake.with_name("uv").joinpath("__init__.py").write_text(
        f"def find_uv_bin(): return {str(fake / 'uv')!r}\n"
    )
    (fake / "uv").write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\n"
        "import fakes_env, fakes_interpreter\nfrom pathlib import Path\n"
        "run = fakes_env.FakeRun()\nwords = sys.argv\nstep = run._step(words)\n"
        "fakes_interpreter.stop(step)\nprint(getattr(run, '_' + step)(words))\n"
        "if step == 'venv':\n"
        "    python = Path(next(word for word in words if word.endswith('/venv'))) / 'bin' / 'python'\n"
        "    python.unlink()\n    python.symlink_to(__file__)\n"
    )
    (fake / "uv").chmod(0o755)
    wheels = lab.folder / "wheels"
    wheels.mkdir()
    from fakes_env import wheel_name

    (wheels / wheel_name("2.1.0", machine="any")).touch()
    lab.env["PYTHONPATH"] = os.pathsep.join([str(fake.parent), lab.env["PYTHONPATH"]])
    words = ["env", "build", "2.1.0", "--find-links", str(wheels), "--store", str(lab.folder / "store")]
    assert lab.kill(number, "venv", *words) == expected(number), lab.said()
    assert lab.start(*words).wait(PATIENCE_S) == 0, lab.said()


@pytest.mark.parametrize("how", ["closed", "killed", "killed at once"])
def test_a_guardian_knows_the_end_of_the_lab_in_any_way(tmp_path: Path, how: str) -> None:
    """Also where a fork of the lab holds the pipe open, and where the lab is gone before it listens."""
    marked = subprocess.Popen(
        [sys.executable, "-S", "-c", fakes_interpreter.NAP],
        env={guardian.RUN: "ab" * 16},
        start_new_session=True,
    )
    code = (
        "import os, subprocess, sys, time\n"
        f"ours, theirs = os.pipe()\nmain = {str(Path(guardian.__file__).with_name('guardian_main.py'))!r}\n"
        "command = [sys.executable, '-I', '-S', main, str(os.getpid())]\n"
        "child = subprocess.Popen(command, stdin=ours, start_new_session=True)\n"
        f"os.close(ours)\nos.write(theirs, b'{'ab' * 16}\\n1 1\\nx y z\\n')\n"
        "print(child.pid, flush=True)\n"
        "if sys.argv[1] == 'closed':\n    os.close(theirs)\n    sys.exit(child.wait())\n"
        "if os.fork() == 0:\n    time.sleep(100)\n    os._exit(0)\n"
        "time.sleep(0 if sys.argv[1].endswith('once') else 1)\nos.kill(os.getpid(), 9)\n"
    )
    lab = subprocess.Popen([sys.executable, "-c", code, how], stdout=subprocess.PIPE, start_new_session=True)
    assert lab.stdout is not None
    try:
        pid = int(lab.stdout.readline())
        assert lab.wait(PATIENCE_S) == (0 if how == "closed" else -signal.SIGKILL)
        assert marked.wait(PATIENCE_S) == -signal.SIGKILL
        wait_for(lambda: (p := process_table.read(pid)) is None or not p.alive, lambda: "the guardian stays")
    finally:
        marked.kill()
        marked.wait()
        lab.stdout.close()
        try:
            os.killpg(lab.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_the_kills_are_counted(request: pytest.FixtureRequest) -> None:
    """Printed with -s, and by CI's report of this file. It is the last one here: all others have run."""
    here = {item.originalname for item in request.session.items if item.path == request.path}
    torch = test_a_real_warm_server_and_its_forks_are_ended.__name__
    if {name for name in vars(request.module) if name.startswith("test_")} - here - {torch}:
        pytest.skip("only some of the tests of this module are run")
    told = ", ".join(f"{name} {count}" for name, count in sorted(kills.items()))
    print(f"\nkills: {kills.total()}, no process of the run left after any of them ({told})")
    assert sum(kills[number.name] for number in SIGNALS) >= FEWEST
