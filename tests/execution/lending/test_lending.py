"""Warm servers that outlive a run: who gets a fork of which, what it inherits, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import accel_lab
import fakes_interpreter
from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import EnvironmentId
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.lending import channel, server_client, server_keys
from accel_lab.execution.lending.hosted import Hosted
from accel_lab.execution.lending.server_client import Borrowed, Servers, borrow, servers_of
from accel_lab.execution.prober import Prober
from accel_lab.execution.processes import process_table
from accel_lab.execution.processes.guardian import GUARDIAN, RUN
from accel_lab.execution.processes.process import MARKER
from accel_lab.execution.run_folder.workspace import Workspace

pytestmark = pytest.mark.skipif(not process_table.HAVE_PROC, reason="servers are lent on Linux only")

PATIENCE_S = 60.0


def until(done: Callable[[], bool]) -> None:
    """Wait for what another process does; a busy machine is no failure."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


def parent(borrowed: Borrowed) -> int:
    """The clean server that it is a fork of."""
    found = process_table.read(borrowed.process.pid)
    assert found is not None
    return found.parent


def is_there(pid: int) -> bool:
    found = process_table.read(pid)
    return found is not None and found.alive


class Borrower:
    """Borrows for made-up runs of the fake interpreter."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self.folder = folder
        self.servers = servers
        self.python = str(fakes_interpreter.made(folder))
        self.environment = {**os.environ, "PYTHONPATH": str(folder / "modules")}
        (folder / "modules").mkdir()
        self.library = Workspace(folder / "run", folder).library.parent
        self.marker = ""

    def borrow(self, **variables: str) -> Borrowed:
        self.marker = f"server-{uuid.uuid4().hex}"
        return borrow(
            self.servers,
            python=self.python,
            library=self.library,
            environment={**self.environment, **variables},
            marker=self.marker,
            log=self.folder / "run" / "log.txt",
            fill_cache=lambda cache: None,
        )[0]


@pytest.fixture
def lent(tmp_path: Path) -> Iterator[Borrower]:
    servers = Servers(folder=tmp_path / "servers", keep_s=600.0)
    yield Borrower(tmp_path, servers)
    server_client.end_left(servers.folder)
    until(lambda: not any(path.is_socket() for path in servers.folder.glob("*")))


def test_each_run_gets_a_fork_of_the_same_clean_server(lent: Borrower) -> None:
    one, two = lent.borrow(), lent.borrow(PWD="/elsewhere", ACCEL_LAB_BISECT_JOBS="3")
    clean = parent(one)
    assert clean == parent(two) and one.process.pid != two.process.pid
    one.end()
    assert not is_there(one.process.pid) and is_there(two.process.pid) and is_there(clean)
    other = lent.borrow(OMP_NUM_THREADS="1")
    assert parent(other) != clean, "torch reads it when it is imported"
    two.end()
    other.end()


def test_a_fork_is_found_and_ended_as_a_server_of_the_run_is(lent: Borrower) -> None:
    one = lent.borrow(TORCHINDUCTOR_CACHE_DIR="/of/this/run")
    assert json.loads(one.stdout.readline())["event"] == "ready"
    pid, clean = one.process.pid, parent(one)
    assert process_table.is_marked(pid, lent.marker)
    assert process_table.is_marked(pid, GUARDIAN.run, RUN)
    assert not process_table.is_marked(clean, lent.marker) and not process_table.is_marked(
        clean, GUARDIAN.run, RUN
    )
    assert os.path.samefile(f"/proc/{pid}/cwd", lent.folder / "run")
    found = process_table.read(pid)
    assert found is not None and found.session == pid
    one.stdin.close()  # as the kernel does where the lab is killed
    until(lambda: not is_there(pid))
    assert is_there(clean)


def test_a_server_that_has_loaded_other_files_is_not_used_any_more(lent: Borrower) -> None:
    one = lent.borrow()
    first = parent(one)
    one.end()
    (lent.folder / "modules" / "sitecustomize.py").write_text("")
    two = lent.borrow()
    assert parent(two) != first
    until(lambda: not is_there(first))
    two.end()


def test_what_is_not_ours_alone_is_not_used(lent: Borrower, monkeypatch: pytest.MonkeyPatch) -> None:
    lent.borrow().end()
    name = server_keys.process_key()
    folder = lent.servers.folder
    assert (folder / name).stat().st_mode & 0o077 == 0
    folder.chmod(0o755)
    with pytest.raises(LabError, match="not yours alone"):
        channel.connect(folder, name)
    folder.chmod(0o700)
    with channel.connect(folder, name) as connection:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(LabError, match="is of user"):
            channel.expect_own(connection)
        with pytest.raises(LabError, match="not yours alone"):
            channel.connect(folder, name)


def test_a_copy_of_the_child_that_a_script_has_changed_is_not_lent_to(lent: Borrower) -> None:
    (lent.library / "accel_lab_child" / "runner.py").write_text("print('mine')\n")
    with pytest.raises(LabError, match="of another lab"):
        lent.borrow()
    assert not lent.servers.folder.exists()


@pytest.mark.parametrize(
    "request_",
    [
        {"ask": "lend", "key": "k"},
        {"ask": "all", "key": "k"},
        {"ask": 3, "key": "k"},
        {"key": "k"},
        {"ask": "lend", "key": "k", "start": {"python": "/bin/sh", "folder": "../..", "environment": {}}},
    ],
)
def test_the_host_refuses_what_no_run_asks(lent: Borrower, request_: dict[str, object]) -> None:
    lent.borrow().end()
    with channel.connect(lent.servers.folder, server_keys.process_key()) as connection:
        files = [0, 1, 2] if "start" in request_ else []
        channel.send(connection, request_, files)
        answer, _ = channel.receive(connection)
    assert list(answer) == ["refused"]


def test_a_host_ends_when_it_was_idle_for_long_enough(tmp_path: Path) -> None:
    lent = Borrower(tmp_path, Servers(folder=tmp_path / "servers", keep_s=0.2))
    one = lent.borrow()
    clean = parent(one)
    time.sleep(0.5)
    assert is_there(one.process.pid), "it is in use"
    one.end()
    until(lambda: not is_there(clean))
    until(lambda: not any(path.is_socket() or path.is_dir() for path in (tmp_path / "servers").iterdir()))


def test_without_a_host_a_run_starts_its_own_server(tmp_path: Path) -> None:
    script = tmp_path / "work" / "repro.py"
    script.parent.mkdir()
    script.write_text("import os\nprint(os.environ['FAKE_WAY'])\n")
    python = str(fakes_interpreter.made(tmp_path))
    probe = Probe(
        program=Program(path=str(script)), environment=EnvironmentId.of_interpreter(python, "2.99.0")
    )
    nobody = Servers(folder=tmp_path / "servers")
    workspace = Workspace(tmp_path / "run", script.parent)
    with Prober(python=python, workspace=workspace, servers=nobody) as prober:
        prober.warm_up()
        assert prober.ask(probe).warm
    assert not nobody.folder.exists(), "none was to be left"


def test_who_may_use_and_leave_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path))
    left = servers_of({}, keep_s=60.0)
    assert left == Servers(folder=tmp_path / "cache" / "servers", keep_s=60.0) and left.starts
    used = servers_of({}, keep_s=0.0)
    assert used is not None and not used.starts
    assert servers_of({MARKER: "job-1"}, keep_s=60.0) is None, "a lab that watches this one keeps none"
    given = servers_of({MARKER: "job-1", server_keys.SERVERS: "/a"}, keep_s=0.0)
    assert given == Servers(folder=Path("/a"), has_host=True) and given.starts
    assert servers_of({server_keys.SERVERS: ""}, keep_s=60.0) is None


def test_all_of_the_environment_counts_but_where_a_shell_runs() -> None:
    python = sys.executable

    def key(**variables: str) -> str:
        return server_keys.server_key(python, {"PATH": os.environ["PATH"], **variables}, "code")

    assert key() == key(PWD="/a", SHLVL="2", SSH_TTY="/dev/pts/1", ACCEL_LAB_PROBE="server-1")
    assert len({key(), key(LD_PRELOAD="x.so"), key(LANG="C"), key(PYTHONPATH="/a"), key(CXX="clang++")}) == 5
    assert server_keys.server_key(python, {}, "one") != server_keys.server_key(python, {}, "two")


def test_how_a_process_stands_counts_but_not_that_it_waits_for_an_interrupt(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom accel_lab.execution.lending.server_keys import process_key\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup ignores it
        "print(process_key())\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(process_key())\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nprint(process_key())\n"
        "os.umask(0o27)\nprint(process_key())\nos.nice(1)\nprint(process_key())\n"
    )
    path = str(Path(accel_lab.__file__).parents[1])
    out = subprocess.check_output([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path})
    first, interrupted, *others = out.decode().split()
    assert first == interrupted
    assert len({first, *others}) == 4


def test_the_code_of_a_copy_is_that_of_the_package(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path)
    library = workspace.library.parent
    assert server_keys.copied_code(library) == server_keys.package_code()
    (library / "more.py").write_text("")
    assert server_keys.copied_code(library) != server_keys.package_code()


def test_what_a_process_runs_shares_the_servers_that_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(server_keys.SERVERS)
    hosted = Hosted()
    given = hosted.environment()
    assert given == hosted.environment()
    folder = Path(given[server_keys.SERVERS])
    lent = Borrower(tmp_path, Servers(folder=folder, has_host=True))
    one, two = lent.borrow(), lent.borrow()
    clean = parent(one)
    assert clean == parent(two)
    one.end()
    two.end()
    hosted.close()
    assert not folder.exists()
    until(lambda: not is_there(clean))


def test_a_second_bisection_finds_the_server_that_the_first_left(tmp_path: Path) -> None:
    script = tmp_path / "work" / "repro.py"
    script.parent.mkdir()
    script.write_text(
        "import os\n\n\ndef f():\n    if os.environ['FAKE_RUNG'] in ('', 'kernel'):\n"
        "        raise RuntimeError('the kernel is wrong')\n\n\nf()\n"
    )
    python = str(fakes_interpreter.made(tmp_path))
    env = {**os.environ, "ACCEL_LAB_HOME": str(tmp_path / "home")}
    env["PYTHONPATH"] = str(Path(accel_lab.__file__).parents[1])
    del env[server_keys.SERVERS]

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "accel_lab", *words]
        return subprocess.run(
            command, env=env, cwd=script.parent, capture_output=True, text=True, check=False
        )

    def bisect(*words: str) -> tuple[str, str, int, bool]:
        short = ["--no-bundle", "--no-minimize", "--no-workarounds", "--no-components", "--json", "-q", "-v"]
        ended = lab("bisect", *short, "--python", python, *words, str(script))
        assert ended.returncode == 1, ended.stderr
        found = json.loads(ended.stdout)
        lent = "is a fork of one that is kept" in ended.stderr
        return found["verdict"], found["culprit"]["stage"], found["probes"], lent

    try:
        *first, lent = bisect("--keep-server", "10m")
        assert lent and first[0] == "fails"
        assert bisect() == (*first, True), "it uses what is there, and would leave none"
        assert bisect("--fresh") == (*first, False)
    finally:
        ended = lab("clean", "--servers")
    assert "ended the warm servers" in ended.stdout
    folder = tmp_path / "home" / "cache" / "servers"
    until(lambda: all(path.suffix == ".lock" for path in folder.iterdir()))
    assert bisect()[3] is False


SEED = """
import torch
print(torch.initial_seed())
"""
STRAY = f"""{SEED}
import os, random, signal, sys, torch
torch.set_default_dtype(torch.float64)
torch.manual_seed(3)
torch.set_num_threads(1)
torch._dynamo.config.cache_size_limit = 1
torch.nn.functional.relu = None
random.seed(3)
os.environ["STRAY"] = "1"
os.chdir("/")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.modules["stray"] = torch
"""
TELL = """
import json, os, random, signal, sys, threading, torch
print(json.dumps([
    str(torch.get_default_dtype()), torch.get_num_threads(),
    torch._dynamo.config.cache_size_limit, torch.nn.functional.relu is None, random.random(),
    os.environ.get("STRAY"), os.getcwd() == "/", signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    "stray" in sys.modules, threading.active_count(), torch.compile(lambda x: x + 1, backend="eager")(
        torch.ones(2)).tolist(),
]))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_leaves_no_trace_in_the_next_run(
    torch_python: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The fork of the second run is as a fresh process, whatever the script of the first one changed."""
    script = tmp_path / "work" / "repro.py"
    script.parent.mkdir()
    servers = Servers(folder=tmp_path / "servers", keep_s=600.0)
    warm = Probe(
        program=Program(path=str(script)),
        environment=EnvironmentId.of_interpreter(torch_python, "torch"),
        rung=Rung.UNCOMPILED,
    )

    def told(name: str, text: str, *probes: Probe) -> list[str]:
        script.write_text(text)
        workspace = Workspace(tmp_path / name, script.parent)
        with Prober(python=torch_python, workspace=workspace, servers=servers) as prober:
            prober.warm_up()
            outcomes = [prober.ask(probe) for probe in probes]
        assert [outcome.warm for outcome in outcomes] == [not probe.cold for probe in probes]
        return [Path(outcome.folder, "stdout.txt").read_text() for outcome in outcomes]

    try:
        with caplog.at_level("DEBUG", logger="accel_lab"):
            (stray,) = told("stray", STRAY, warm)
            shared, fresh = told("tell", TELL, warm, replace(warm, cold=True))
            (other,) = told("seed", SEED, warm)
        assert shared == fresh and json.loads(shared)[0] == "torch.float32"
        assert stray == other, "a script that sets no seed begins alike in each run"
        assert caplog.text.count("is a fork of one that is kept") == 3
        assert caplog.text.count("a host of warm servers was started") == 1
    finally:
        server_client.end_left(servers.folder)
