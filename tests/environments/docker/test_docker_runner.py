"""The container runner on a daemon in this process: how it shuts a run in, what it makes of each end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.environments.docker import runner as docker_runner
from accel_lab.environments.docker.client import connector
from accel_lab.environments.docker.leftovers import DEADLINE, OWNER, RUN, is_leftover, labels
from accel_lab.environments.docker.runner import DockerRunner
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.lab import LocalLab, Oracle
from fakes_docker import FakeContainer, FakeDaemon, FakeImage, api_error

LIMITS = Limits(timeout_s=30.0, memory_mb=512, output_mb=1, file_mb=8, processes=20)


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon(FakeImage("image"))


class Run:
    """A workspace with one probe's folder, and the runner on it."""

    def __init__(self, folder: Path, daemon: FakeDaemon, **settings: Any) -> None:
        self.place = folder / "run" / "probes" / "key"
        (self.place / "cwd").mkdir(parents=True)
        self.script = folder / "user" / "script.py"
        self.script.parent.mkdir()
        self.script.write_text("print('x')")
        self.runner = DockerRunner(
            connect=daemon.connect, image="image", python="/py", keep=folder / "run" / "docker", **settings
        )

    def __call__(self, *command: str, limits: Limits = LIMITS, **settings: Any) -> ProcessExit:
        env = settings.pop("env", {"TORCH_LOGS": "x", "AWS_SECRET_ACCESS_KEY": "s3cret"})
        return self.runner(
            command or ("/py", str(self.script)),
            cwd=self.place / "cwd",
            env=env,
            stdout=self.place / "stdout.txt",
            stderr=self.place / "stderr.txt",
            limits=limits,
            marker="the-marker",
            **settings,
        )


@pytest.fixture
def run(tmp_path: Path, daemon: FakeDaemon) -> Run:
    return Run(tmp_path.resolve(), daemon)


# -- how it is shut in ---------------------------------------------------------------------------


def test_the_container_has_no_network_no_privileges_and_a_system_that_cannot_be_written(
    run: Run, daemon: FakeDaemon
) -> None:
    run()
    made = daemon.last.settings
    assert made["network_mode"] == "none"
    assert made["read_only"] is True
    assert made["cap_drop"] == ["ALL"]
    assert "cap_add" not in made
    assert not made["privileged"]
    assert "no-new-privileges:true" in made["security_opt"]
    assert made["init"] is True
    assert not made["user"].startswith("0:")
    assert made["user"].split(":")[0] != "0"


def test_the_limits_of_the_run_are_the_container_s(run: Run, daemon: FakeDaemon) -> None:
    run()
    made = daemon.last.settings
    assert made["mem_limit"] == made["memswap_limit"] == 512 << 20
    assert 20 <= made["pids_limit"] <= 100
    assert made["nano_cpus"] == 4e9
    limits = {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in made["ulimits"]}
    assert limits == {"fsize": (8 << 20, 8 << 20), "core": (0, 0)}


def test_only_the_run_s_own_folder_can_be_written(run: Run, daemon: FakeDaemon) -> None:
    run()
    mounts = {mount["Target"]: mount for mount in daemon.last.settings["mounts"]}
    writable = [target for target, mount in mounts.items() if not mount["ReadOnly"]]
    assert writable == [str(run.place)]
    assert str(run.script.parent) in mounts
    assert all(mount["Type"] == "bind" for mount in mounts.values())


def test_a_run_that_fills_its_folder_is_ended(run: Run, daemon: FakeDaemon) -> None:
    daemon.looks = 10_000

    def fill(container: FakeContainer) -> None:
        (run.place / "large").write_bytes(os.urandom(3 << 20))

    daemon.on_start = fill
    assert run(limits=replace(LIMITS, disk_mb=2)).limit == "disk"
    assert daemon.last.signals == ["SIGKILL"]


def test_the_container_is_held_by_its_standard_input(run: Run, daemon: FakeDaemon) -> None:
    run()
    assert daemon.last.plan["held"] is True


def test_the_program_of_a_job_is_shown(run: Run, daemon: FakeDaemon) -> None:
    job = run.place / "job.json"
    job.write_text(json.dumps({"program": {"path": str(run.script)}}))
    run("/py", "/lib/child", "once", str(job))
    assert str(run.script.parent) in [mount["Target"] for mount in daemon.last.settings["mounts"]]


def test_the_command_gets_nothing_of_the_user_s_environment_but_what_a_run_needs(
    run: Run, daemon: FakeDaemon
) -> None:
    run()
    env = daemon.last.settings["environment"]
    assert env["TORCH_LOGS"] == "x"
    assert env["ACCEL_LAB_PROBE"] == "the-marker"
    assert env["HOME"].startswith("/tmp")
    assert "s3cret" not in json.dumps(env)


def test_paths_of_the_user_s_modules_are_kept_as_far_as_they_can_be_seen(
    run: Run, daemon: FakeDaemon
) -> None:
    inside = str(run.script.parent)
    run(env={"PYTHONPATH": f"/somewhere/else:{inside}"})
    assert daemon.last.settings["environment"]["PYTHONPATH"] == inside


def test_the_command_is_handed_over_as_it_is(run: Run, daemon: FakeDaemon) -> None:
    run("/py", "it's", "$HOME", "a b")
    assert daemon.last.plan["command"] == ["/py", "it's", "$HOME", "a b"]
    assert daemon.last.plan["stdin"] == ""
    assert daemon.last.settings["entrypoint"][0] == "/py"
    assert daemon.last.settings["working_dir"] == str(run.place / "cwd")


def test_standard_input_is_a_file_that_is_shown(run: Run, daemon: FakeDaemon, tmp_path: Path) -> None:
    source = tmp_path.resolve() / "input" / "in.txt"
    source.parent.mkdir()
    source.write_text("hello")
    run(stdin=source)
    assert daemon.last.plan["stdin"] == str(source)
    assert str(source.parent) in [mount["Target"] for mount in daemon.last.settings["mounts"]]


# -- what becomes of an end ----------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 125, 126, 127, 137, 139])
def test_the_script_s_exit_code_is_its_own_whatever_docker_means_by_it(
    run: Run, daemon: FakeDaemon, code: int
) -> None:
    daemon.report = {"exit_code": code, "seconds": 1.5, "peak_mb": 9.0}
    ended = run()
    assert (ended.exit_code, ended.signal, ended.limit) == (code, None, None)
    assert (ended.seconds, ended.peak_mb) == (1.5, 9.0)


def test_a_signal_is_a_signal(run: Run, daemon: FakeDaemon) -> None:
    daemon.report = {"signal": signal.SIGSEGV.value}
    ended = run()
    assert (ended.exit_code, ended.signal, ended.limit) == (None, signal.SIGSEGV, None)


def test_out_of_memory_is_a_limit(run: Run, daemon: FakeDaemon) -> None:
    daemon.report, daemon.oom = {"signal": signal.SIGKILL.value}, True
    ended = run()
    assert (ended.exit_code, ended.signal, ended.limit) == (None, None, "memory")


def test_a_kill_at_the_brim_is_out_of_memory_even_if_the_daemon_has_not_heard_of_it(
    run: Run, daemon: FakeDaemon
) -> None:
    daemon.report = {"signal": signal.SIGKILL.value, "peak_mb": 511.0}
    assert run().limit == "memory"
    daemon.report = {"signal": signal.SIGKILL.value, "peak_mb": 100.0}
    assert run().signal == signal.SIGKILL


def test_the_first_program_killed_from_inside_is_a_kill(run: Run, daemon: FakeDaemon) -> None:
    daemon.report, daemon.exit_code = None, 137
    assert run().signal == signal.SIGKILL


@pytest.mark.parametrize("code", [1, 126, 127])
def test_a_container_whose_python_does_not_start_is_no_answer_of_the_script(
    run: Run, daemon: FakeDaemon, code: int
) -> None:
    daemon.report, daemon.exit_code, daemon.said = None, code, "error while loading shared libraries"
    with pytest.raises(EnvironmentUnavailable, match="shared libraries") as raised:
        run()
    assert "\n" not in str(raised.value)
    assert daemon.last.removed


def test_a_program_that_is_not_there_is_no_answer_either(run: Run, daemon: FakeDaemon) -> None:
    daemon.report = {"error": "cannot start 'nope': No such file or directory"}
    with pytest.raises(LabError, match="cannot start 'nope'"):
        run("nope")


def test_the_time_limit_asks_for_stacks_and_then_ends_it(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STACKS_S", "GRACE_S"):
        monkeypatch.setattr(docker_runner, name, 0.01)
    daemon.looks, daemon.dies_of = 10**6, "never"
    ended = run(limits=Limits(timeout_s=0.05))
    assert (ended.exit_code, ended.signal, ended.limit) == (None, None, "timeout")
    assert daemon.last.signals == ["SIGUSR1", "SIGINT", "SIGTERM", "SIGKILL"]
    assert daemon.last.removed


def test_one_that_ends_when_asked_is_not_killed(run: Run, daemon: FakeDaemon) -> None:
    daemon.looks = 10**6
    stop = threading.Event()
    daemon.on_start = lambda container: stop.set()
    assert run(stop=stop).limit == "interrupted"
    assert daemon.last.signals == ["SIGINT"]


def test_nothing_starts_after_the_stop(run: Run, daemon: FakeDaemon) -> None:
    stop = threading.Event()
    stop.set()
    assert run(stop=stop).limit == "interrupted"
    assert daemon.created == []


def test_endless_output_is_cut_and_ended_at_once(run: Run, daemon: FakeDaemon) -> None:
    daemon.looks = 10**6
    daemon.on_start = lambda container: _write(container, 3 << 20)
    ended = run()
    assert ended.limit == "output"
    assert daemon.last.signals == ["SIGKILL"]
    assert (run.place / "stdout.txt").stat().st_size == 1 << 20


def test_too_much_output_counts_also_when_the_run_is_over(run: Run, daemon: FakeDaemon) -> None:
    daemon.looks = 0
    daemon.on_start = lambda container: _write(container, 3 << 20)
    assert run().limit == "output"


def test_a_fork_bomb_is_a_limit(run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_runner, "STATS_S", 0.0)
    daemon.looks, daemon.pids = 10**6, 80
    ended = run()
    assert ended.limit == "processes"
    assert daemon.last.signals == ["SIGKILL"]


def test_peak_memory_is_what_was_seen_without_the_page_cache(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_runner, "STATS_S", 0.0)
    assert run().peak_mb == 40.0


def test_what_an_earlier_run_printed_is_gone(run: Run) -> None:
    (run.place / "stdout.txt").write_text("old")
    run()
    assert (run.place / "stdout.txt").read_text() == ""


def test_what_the_run_put_under_the_name_of_its_output_is_not_followed(
    run: Run, daemon: FakeDaemon, tmp_path: Path
) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_bytes(b"p" * (3 << 20))

    def swap(container: FakeContainer) -> None:
        out = Path(container.plan["stdout"])
        _write(container, 3 << 20)
        out.unlink()
        out.symlink_to(precious)

    daemon.on_start = swap
    assert run().limit == "output"
    assert precious.stat().st_size == 3 << 20
    out = run.place / "stdout.txt"
    assert not out.is_symlink()
    assert out.read_bytes() == b"x" * (1 << 20)


def test_output_that_the_run_removed_is_there_again(run: Run, daemon: FakeDaemon) -> None:
    def remove(container: FakeContainer) -> None:
        _write(container, 3)
        for name in ("stdout", "stderr"):
            Path(container.plan[name]).unlink()
        Path(container.plan["stderr"]).mkdir()

    daemon.on_start = remove
    run()
    assert (run.place / "stdout.txt").read_bytes() == b"xxx"
    assert (run.place / "stderr.txt").read_bytes() == b""


def test_what_is_left_can_be_read_without_harm(run: Run, daemon: FakeDaemon, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (run.place / "cwd" / "user.bin").symlink_to(tmp_path / "secret.txt")

    def leave(container: FakeContainer) -> None:
        os.mkfifo(run.place / "result.json")  # whoever reads it would wait for ever
        (run.place / "artifacts").mkdir()
        (run.place / "artifacts" / "code.py").symlink_to(tmp_path / "secret.txt")
        (run.place / "records").symlink_to(tmp_path)
        (run.place / "kernels.json").write_text("{}")
        (run.place / "kernels.json").chmod(0o4755)

    daemon.on_start = leave
    run()
    assert not (run.place / "result.json").exists()
    assert list((run.place / "artifacts").iterdir()) == []
    assert not os.path.lexists(run.place / "records")
    assert (run.place / "kernels.json").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "secret.txt").read_text() == "secret"
    assert (run.place / "cwd" / "user.bin").is_symlink()  # the working directory's own links stay


# -- what is not the script's doing --------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (docker.errors.ImageNotFound("No such image: image"), "no such image"),
        (api_error("invalid mount config: bind source path does not exist"), "bind source path"),
        (requests.ConnectionError("gone"), "no longer answers"),
    ],
)
def test_what_cannot_be_created_is_unavailable_in_one_line(
    run: Run, daemon: FakeDaemon, error: Exception, says: str
) -> None:
    daemon.create_error = error
    with pytest.raises(EnvironmentUnavailable, match=says) as raised:
        run()
    assert "\n" not in str(raised.value)


def test_a_container_that_does_not_start_is_removed_and_is_no_answer(run: Run, daemon: FakeDaemon) -> None:
    daemon.start_error = api_error("OCI runtime create failed: exec: no such file")
    with pytest.raises(EnvironmentUnavailable, match="OCI runtime"):
        run()
    assert daemon.last.removed


def test_every_container_is_removed_and_every_client_closed(run: Run, daemon: FakeDaemon) -> None:
    before = daemon.closed
    run()
    assert daemon.containers_there == []
    assert daemon.closed == before + 1


def test_a_container_is_removed_on_ctrl_c(run: Run, daemon: FakeDaemon) -> None:
    def interrupt(container: FakeContainer) -> None:
        raise KeyboardInterrupt

    daemon.on_start = interrupt
    with pytest.raises(KeyboardInterrupt):
        run()
    assert daemon.last.removed


def test_one_that_cannot_be_removed_is_told(
    run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_runner, "GRACE_S", 0.0)
    daemon.remove_errors = [api_error("device busy"), api_error("device busy")]
    with pytest.raises(LabError, match="cannot remove container"):
        run()


def test_no_daemon_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="no docker daemon answers at unix://") as raised:
        connector(f"unix://{tmp_path}/none.sock")()
    assert "\n" not in str(raised.value)


def test_a_daemon_elsewhere_cannot_see_our_files() -> None:
    with pytest.raises(EnvironmentUnavailable, match="another machine"):
        connector("tcp://203.0.113.7:2375")()


# -- left-overs ----------------------------------------------------------------------------------


def test_our_own_containers_are_no_leftovers() -> None:
    assert not is_leftover(labels("m", 1.0))


def test_those_of_a_lab_that_is_gone_are() -> None:
    mine = labels("m", 1.0)
    machine, _, born = mine[OWNER].split(" ")
    assert is_leftover({**mine, OWNER: f"{machine} 4194303 {born}"})
    assert is_leftover({**mine, OWNER: f"{machine} {os.getpid()} 1"})  # the pid went to another since


def test_those_of_another_machine_are_when_their_time_is_over() -> None:
    other = {RUN: "m", OWNER: "elsewhere/x/y 1 1"}
    assert not is_leftover({**other, DEADLINE: str(int(time.time()) + 100)})
    assert is_leftover({**other, DEADLINE: str(int(time.time()) - 1)})
    assert not is_leftover(other)


def test_leftovers_are_removed_when_a_lab_starts(tmp_path: Path, daemon: FakeDaemon) -> None:
    dead = labels("m", 1.0)
    dead[OWNER] = dead[OWNER].split(" ")[0] + " 4194303 7"
    old = daemon.containers.create("image", labels=dead)
    ours = daemon.containers.create("image", labels=labels("m", 1.0))
    Run(tmp_path, daemon)
    assert (old.removed, ours.removed) == (True, False)


def _write(container: FakeContainer, size: int) -> None:
    Path(container.plan["stdout"]).write_bytes(b"x" * size)


# -- beside the probes -----------------------------------------------------------------------------


def test_what_runs_beside_the_probes_may_write_to_a_folder_of_its_own(
    tmp_path: Path, daemon: FakeDaemon
) -> None:
    """Not to the run's, where journal and findings lie; and the compiler that counts is the container's."""
    user = tmp_path.resolve() / "user"
    user.mkdir()
    workspace = Workspace(tmp_path.resolve() / "run", user)
    runner = DockerRunner(
        connect=daemon.connect,
        image="image",
        python="/py",
        read=[workspace.library.parent],
        keep=tmp_path / "k",
    )
    made: list[Path] = []

    def compile_it(container: FakeContainer) -> None:
        if container.plan["command"][0] == "c++-inside":
            made.append(Path(container.plan["command"][-1]))
            made[0].touch()

    daemon.on_start = compile_it
    with Prober(python="/py", workspace=workspace, env={"CXX": "c++-inside"}, runner=runner) as prober:
        assert prober.child_output("doctor", ["doctor"]) == ""
        assert writable(daemon.last) == [str(workspace.root / "asides" / "doctor")]
        lab = LocalLab(prober, Oracle())
        assert lab.compiler_works() == (True, "c++-inside")
        assert writable(daemon.last) == [str(workspace.root / "asides" / "compiler")]
        daemon.on_start = None
        daemon.report = {"exit_code": 1, "seconds": 0.1, "peak_mb": 1.0}
        assert lab.compiler_works() == (False, "c++-inside ended with 1")
        daemon.report = {"error": "cannot start 'c++-inside': No such file or directory"}
        assert "cannot start 'c++-inside'" in lab.compiler_works()[1]
        with pytest.raises(LabError, match="cannot start"):
            prober.child_output("doctor", ["doctor"])


def writable(container: FakeContainer) -> list[str]:
    return [mount["Target"] for mount in container.settings["mounts"] if not mount["ReadOnly"]]
