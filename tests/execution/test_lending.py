"""Warm servers that outlive a run: who gets a fork of which, what it inherits, and how they end."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fakes_interpreter
from accel_lab.core.environment import EnvironmentId
from accel_lab.core.errors import LabError
from accel_lab.core.probe import Probe, Program
from accel_lab.execution.lending import borrower, channel, sameness
from accel_lab.execution.lending.borrower import Borrowed, Servers, borrow, servers_of
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
            furnish=lambda cache: None,
        )[0]


@pytest.fixture
def lent(tmp_path: Path) -> Iterator[Borrower]:
    servers = Servers(folder=tmp_path / "servers", keep_s=600.0)
    yield Borrower(tmp_path, servers)
    borrower.end_left(servers.folder)
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
    name = sameness.process_key()
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
    with channel.connect(lent.servers.folder, sameness.process_key()) as connection:
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
    given = servers_of({MARKER: "job-1", sameness.SERVERS: "/a"}, keep_s=0.0)
    assert given == Servers(folder=Path("/a"), hosted=True) and given.starts
    assert servers_of({sameness.SERVERS: ""}, keep_s=60.0) is None


def test_all_of_the_environment_counts_but_where_a_shell_runs() -> None:
    python = sys.executable

    def key(**variables: str) -> str:
        return sameness.server_key(python, {"PATH": os.environ["PATH"], **variables}, "code")

    assert key() == key(PWD="/a", SHLVL="2", SSH_TTY="/dev/pts/1", ACCEL_LAB_PROBE="server-1")
    assert len({key(), key(LD_PRELOAD="x.so"), key(LANG="C"), key(PYTHONPATH="/a"), key(CXX="clang++")}) == 5
    assert sameness.server_key(python, {}, "one") != sameness.server_key(python, {}, "two")


def test_the_code_of_a_copy_is_that_of_the_package(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path)
    library = workspace.library.parent
    assert sameness.copied_code(library) == sameness.package_code()
    (library / "more.py").write_text("")
    assert sameness.copied_code(library) != sameness.package_code()
