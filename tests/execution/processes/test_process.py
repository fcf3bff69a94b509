"""Hostile programs end as a proper ProcessExit, and nothing of them is left in the process table."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.execution.processes import process, process_table, watch
from accel_lab.execution.processes.process import MARKER, ProcessExit, Watch, run, spawn, sweep

pytestmark = pytest.mark.skipif(not process_table.HAVE_PROC, reason="looks for leftovers in /proc")

# Nothing here may outlive a bug in the code under test for long: every sleep and every loop is bounded.
NAP = "import time; time.sleep(40)"

DAEMON = f"""
    import os, sys
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.closerange(0, 64)
            os.execve(sys.executable, [sys.executable, "-c", {NAP!r}, sys.argv[1]], {{}})
        os._exit(0)
    os.wait()
    time.sleep(float(sys.argv[2]))
"""


class Bench:
    """Runs Python text with a token in its arguments, by which all that comes of it can be found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = "probe-" + uuid.uuid4().hex
        self.stdout = folder / "stdout.txt"
        self.stderr = folder / "stderr.txt"
        self.cwd = folder / "cwd"
        self.cwd.mkdir()
        self.env = {"PATH": os.environ["PATH"]}

    def run(self, code: str, *args: str, **more) -> ProcessExit:
        return self.command([sys.executable, "-S", "-c", self.text(code), self.token, *args], **more)

    def text(self, code: str) -> str:
        return "import os, signal, sys, time\n" + textwrap.dedent(code)

    def command(self, command: list[str], *, limits: Limits | None = None, **more) -> ProcessExit:
        return run(
            command,
            cwd=self.cwd,
            env=self.env,
            stdout=self.stdout,
            stderr=self.stderr,
            limits=limits or Limits(timeout_s=30),
            marker=more.pop("marker", self.token),
            **more,
        )

    def left(self) -> list[int]:
        """Every process, zombies excepted, that has the token in its arguments."""
        found = []
        for entry in process_table.table():
            try:
                line = Path(f"/proc/{entry.pid}/cmdline").read_bytes()
            except OSError:
                continue
            if self.token.encode() in line:
                found.append(entry.pid)
        return found


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    left = bench.left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def wait_for(condition) -> None:
    """Until the condition holds; the bound only turns a bug into a failure instead of a hang."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")


# ---- ends of its own accord


@pytest.mark.parametrize(
    ("code", "exit_code", "number"),
    [
        ("pass", 0, None),
        ("sys.exit(7)", 7, None),
        ("raise ValueError", 1, None),
        ("os._exit(0)", 0, None),
        ("os.abort()", None, signal.SIGABRT),
        ("import ctypes; ctypes.string_at(0)", None, signal.SIGSEGV),
        ("os.kill(os.getpid(), 9)", None, signal.SIGKILL),
        ("os.closerange(0, 256); os._exit(5)", 5, None),
        ("os.rmdir(os.getcwd()); sys.exit(6)", 6, None),
        ("signal.signal(signal.SIGTERM, lambda *a: None); os.kill(os.getpid(), 15); sys.exit(4)", 4, None),
    ],
)
def test_ends_by_itself(bench, code, exit_code, number):
    ended = bench.run(code)
    assert (ended.exit_code, ended.signal, ended.limit) == (exit_code, number, None)
    assert ended.seconds > 0


def test_streams_environment_and_directory(bench, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("a question")
    code = f"""
        print(sys.stdin.read(), os.environ["{MARKER}"] == sys.argv[1], os.getcwd())
        print(os.getsid(0) == os.getpid(), file=sys.stderr)
    """
    assert bench.run(code, stdin=source).exit_code == 0
    assert bench.stdout.read_text() == f"a question True {bench.cwd}\n"
    assert bench.stderr.read_text() == "True\n"


def test_no_input_is_an_empty_file_and_both_outputs_may_be_one(bench):
    bench.stdout.write_text("of an earlier run")
    bench.stderr = bench.stdout
    bench.run("sys.stderr.write(repr(sys.stdin.read())); sys.stderr.flush(); print(' then this')")
    assert bench.stdout.read_text() == "'' then this\n"


def test_peak_is_the_memory_of_the_whole_tree(bench):
    ended = bench.run("""
        block = b"x" * 50_000_000
        if os.fork() == 0:
            block = b"y" * 50_000_000
            time.sleep(1)
            os._exit(0)
        os.wait()
    """)
    assert ended.exit_code == 0
    # Two live blocks are 95 MiB; a third lives while the child replaces its own.
    assert 95 < ended.peak_mb < 200


@pytest.mark.parametrize("what", ["missing", "not executable", "no directory", "null byte"])
def test_what_cannot_be_started_is_one_clear_line(bench, tmp_path, what):
    command = {"missing": "/no/such/thing", "not executable": str(tmp_path), "null byte": "a\0b"}.get(
        what, "sh"
    )
    if what == "no directory":
        bench.cwd.rmdir()
    with pytest.raises(LabError, match="cannot start") as caught:
        bench.command([command])
    assert "\n" not in str(caught.value)


def test_missing_input_is_a_clear_line(bench, tmp_path):
    with pytest.raises(LabError, match=r"cannot open .*nothing\.txt: No such file"):
        bench.run("pass", stdin=tmp_path / "nothing.txt")


# ---- limits


@pytest.mark.parametrize(
    "code",
    [
        NAP,
        "for n in range(1, 32):\n if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n" + NAP,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); 3 ** (10 ** 9)",
        "os.closerange(0, 256)\n" + NAP,
        "os.rmdir(os.getcwd())\n" + NAP,
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "import threading, ctypes; threading.Thread(target=time.sleep, args=(40,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)",
        "os.setpgid(0, 0) if os.fork() == 0 else None\n" + NAP,
    ],
    ids=["sleeps", "ignores", "in C", "closed", "no cwd", "stopped", "first thread gone", "own group"],
)
def test_timeout(bench, code):
    ended = bench.run(code, limits=Limits(timeout_s=0.4))
    assert (ended.exit_code, ended.signal, ended.limit) == (None, None, "timeout")
    assert ended.seconds >= 0.4


def test_timeout_asks_for_stacks_then_interrupts(bench):
    code = """
        import faulthandler
        faulthandler.register(signal.SIGUSR1)
        def here_it_hangs():
            print("ready", flush=True)
            time.sleep(40)
        try:
            here_it_hangs()
        except KeyboardInterrupt:
            print("cleaned up", flush=True)
    """
    assert bench.run(code, limits=Limits(timeout_s=2)).limit == "timeout"
    assert "in here_it_hangs" in bench.stderr.read_text()
    assert bench.stdout.read_text() == "ready\ncleaned up\n"


def test_without_a_handler_no_stacks_are_asked_for(bench):
    code = "try:\n time.sleep(40)\nexcept KeyboardInterrupt:\n print('cleaned up', flush=True)"
    assert bench.run(code, limits=Limits(timeout_s=2)).limit == "timeout"
    assert bench.stdout.read_text() == "cleaned up\n"


def test_memory(bench):
    ended = bench.run(
        """
        blocks = []
        for _ in range(80):
            blocks.append(b"x" * 20_000_000)
        time.sleep(40)
        """,
        limits=Limits(timeout_s=30, memory_mb=200),
    )
    assert ended.limit == "memory"
    assert ended.peak_mb > 200


def test_memory_of_several_processes_together(bench):
    ended = bench.run(
        "for _ in range(4):\n if os.fork() == 0: break\nblock = b'x' * 60_000_000\ntime.sleep(40)",
        limits=Limits(timeout_s=30, memory_mb=200),
    )
    assert ended.limit == "memory"


def test_memory_shared_after_a_fork_is_counted_once(bench):
    ended = bench.run(
        """
        block = b"x" * 100_000_000
        for _ in range(5):
            if os.fork() == 0:
                time.sleep(1)
                os._exit(0)
        for _ in range(5):
            os.wait()
        """,
        limits=Limits(timeout_s=30, memory_mb=300),
    )
    assert (ended.exit_code, ended.limit) == (0, None)
    assert ended.peak_mb > 300


def test_memory_of_a_process_that_has_ended_meanwhile_is_not_counted():
    living = subprocess.Popen([sys.executable, "-c", NAP])
    ended = subprocess.Popen([sys.executable, "-c", NAP])
    try:
        members = [process_table.read(living.pid), process_table.read(ended.pid)]
        table = [replace(member, rss_mb=200.0) for member in members if member is not None]
        ended.kill()
        ended.wait()
        seen = Watch(living.pid, marker="x", limits=Limits(memory_mb=300), outputs=())
        assert len(table) == 2
        # As the table has it they hold 400 MB; what is left of them is one small interpreter.
        assert 0 < seen._measure(table, time.monotonic())["memory"] < 200
    finally:
        living.kill()
        living.wait()


@pytest.mark.parametrize(
    "script",
    ["yes", "yes >&2", "rm ../stdout.txt; yes", "trap '' INT TERM; yes & yes"],
    ids=["stdout", "stderr", "unlinked", "deaf"],
)
def test_output(bench, script):
    ended = bench.command(["timeout", "30", "sh", "-c", script, bench.token], limits=Limits(output_mb=3))
    assert ended.limit == "output"
    for path in (bench.stdout, bench.stderr):
        assert not path.exists() or path.stat().st_size <= 3 * 2**20


def test_output_beyond_the_limit_counts_even_if_it_was_quick(bench):
    ended = bench.command(["head", "-c", "5000000", "/dev/zero"], limits=Limits(output_mb=2))
    assert (ended.exit_code, ended.limit) == (None, "output")
    assert bench.stdout.stat().st_size == 2 * 2**20


def test_file_size_and_core_dumps_of_the_whole_tree(bench):
    code = """
        import resource
        time.sleep(0.3)
        print(resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_CORE)[0] <= 1)
        sys.stdout.flush()
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it and gets an OSError instead
        os.execlp("sh", "sh", "-c", "head -c 3000000 /dev/zero > big; echo $?; ulimit -f")
    """
    assert bench.run(code, limits=Limits(file_mb=1)).exit_code == 0
    size = 2**20
    cause = 128 + signal.SIGXFSZ
    assert bench.stdout.read_text().splitlines()[:2] == [f"({size}, {size}) True", str(cause)]
    assert (bench.cwd / "big").stat().st_size == size


def test_a_crash_leaves_no_core_file(bench):
    before = resource.getrlimit(resource.RLIMIT_CORE)
    ended = bench.run("time.sleep(0.3); os.abort()")
    assert ended.signal == signal.SIGABRT
    assert list(bench.cwd.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_CORE) == before


WIDE = """
    for _ in range(120):
        if os.fork() == 0:
            time.sleep(40)
            os._exit(0)
    time.sleep(40)
"""
DEEP = """
    for _ in range(7):  # 128 processes at most
        os.fork()
    time.sleep(40)
"""
DETACHED = """
    for _ in range(120):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(40)
            os._exit(0)
    time.sleep(40)
"""
LEADERLESS = "if os.fork(): os._exit(0)\n" + textwrap.dedent(DEEP)


@pytest.mark.parametrize(
    "code", [WIDE, DEEP, DETACHED, LEADERLESS], ids=["wide", "deep", "detached", "leaderless"]
)
def test_fork_bomb(bench, code):
    ended = bench.run(code, limits=Limits(timeout_s=30, processes=40))
    assert ended.limit == "processes"


def test_fork_bomb_that_is_deaf(bench):
    deaf = "for n in (2, 15, 10): signal.signal(n, signal.SIG_IGN)\n"
    assert bench.run(deaf + textwrap.dedent(DEEP), limits=Limits(processes=40)).limit == "processes"


def test_zombies_nobody_cares_for_count(bench):
    code = "for _ in range(120):\n if os.fork() == 0: os._exit(0)\ntime.sleep(40)"
    assert bench.run(code, limits=Limits(processes=40)).limit == "processes"


CHAIN = """
    if {rests} and os.fork():
        time.sleep(40)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
"""


@pytest.mark.parametrize("rests", [False, True], ids=["ended", "timeout"])
def test_a_chain_of_processes_that_never_rest(bench, rests):
    """Each link starts the next in a session of its own and is gone before one can look."""
    ended = bench.run(CHAIN.format(rests=rests), limits=Limits(timeout_s=1))
    assert (ended.exit_code, ended.limit) == ((None, "timeout") if rests else (0, None))


# ---- nothing left behind


def test_background_processes_are_ended_with_their_run(bench):
    ended = bench.command(["sh", "-c", f"'{sys.executable}' -c '{NAP}' {bench.token} & exit 3"])
    assert (ended.exit_code, ended.limit) == (3, None)


def test_what_ends_by_itself_soon_after_may_finish(bench):
    """The resource tracker of multiprocessing removes shared memory when its program has ended."""
    ended = bench.run("if os.fork() == 0:\n time.sleep(0.15); open('done', 'w').close()")
    assert ended.exit_code == 0
    assert (bench.cwd / "done").exists()


@pytest.mark.parametrize("rest", ["0", "0.5"])
def test_daemon_with_a_clean_environment(bench, rest):
    assert bench.run(DAEMON, rest).exit_code == 0


def test_daemon_that_keeps_its_environment(bench):
    code = DAEMON.replace(", {})", ", os.environ)")
    assert bench.run(code, "0").exit_code == 0


def test_daemon_at_the_timeout(bench):
    assert bench.run(DAEMON, "40", limits=Limits(timeout_s=1)).limit == "timeout"


def test_no_zombie_of_a_run_stays_with_us(bench):
    bench.run(DAEMON, "0")
    bench.run(DETACHED.replace("40", "0"))
    assert process_table.REGISTER.orphans() == []
    assert [p for p in process_table.table() if process_table.REGISTER.is_orphan(p)] == []


def test_name_that_looks_like_a_line_of_the_process_table(bench, tmp_path):
    name = tmp_path / "a) Z 1 (b"
    name.symlink_to("/bin/sh")
    script = f"'{sys.executable}' -c '{NAP}' {bench.token} & wait; true"
    ended = bench.command([str(name), "-c", script], limits=Limits(timeout_s=0.5))
    assert ended.limit == "timeout"


def test_runs_side_by_side_do_not_disturb_each_other(tmp_path):
    benches = []
    for n in range(5):
        (tmp_path / str(n)).mkdir()
        benches.append(Bench(tmp_path / str(n)))
    codes = [DAEMON, DAEMON, "time.sleep(1.5); sys.exit(9)", "os.fork(); time.sleep(40)", "os.abort()"]

    def one(n: int) -> ProcessExit:
        return benches[n].run(codes[n], "0.1", limits=Limits(timeout_s=1 if n == 3 else 30))

    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(one, n) for n in range(5)]
        foreign = [subprocess.run(["sh", "-c", "sleep 0.2; exit 5"]).returncode for _ in range(3)]
        answers = [future.result() for future in futures]
    assert foreign == [5, 5, 5]
    assert [(e.exit_code, e.signal, e.limit) for e in answers] == [
        (0, None, None),
        (0, None, None),
        (9, None, None),
        (None, None, "timeout"),
        (None, signal.SIGABRT, None),
    ]
    assert [bench.left() for bench in benches] == [[]] * 5


# ---- interruption


def test_stop_event_from_another_thread(bench):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    ended = bench.run("try:\n time.sleep(40)\nexcept KeyboardInterrupt:\n print('asked')", stop=stop)
    assert (ended.exit_code, ended.limit) == (None, "interrupted")
    assert bench.stdout.read_text() == "asked\n"


def test_stop_event_set_before(bench):
    stop = threading.Event()
    stop.set()
    assert bench.run("open('started', 'w')", stop=stop).limit == "interrupted"
    assert list(bench.cwd.iterdir()) == []


def test_keyboard_interrupt_ends_the_tree_and_goes_on(bench):
    main = threading.get_ident()
    threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        bench.run("os.fork(); os.setpgid(0, 0) if os.getsid(0) != os.getpid() else None\n" + NAP)


def test_second_keyboard_interrupt_ends_it_without_grace(bench):
    main = threading.get_ident()
    for delay in (0.5, 0.8):
        threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        bench.run("for n in (2, 15): signal.signal(n, signal.SIG_IGN)\n" + NAP)


def test_sweep_after_the_lab_was_killed(bench):
    lab = f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(process.__file__).parents[3])!r})
        from accel_lab.core.probe import Limits
        from accel_lab.execution.processes.process import run
        code, marker = "import os, time; os.fork(); open('up', 'w'); time.sleep(40)", sys.argv[1]
        nap = [sys.executable, "-c", code, marker]
        here = Path.cwd()
        run(nap, cwd=here, env={{}}, stdout=here / "o", stderr=here / "e", limits=Limits(), marker=marker)
    """
    command = [sys.executable, "-c", textwrap.dedent(lab), bench.token]
    first = spawn(command, cwd=bench.cwd, env=bench.env)
    wait_for((bench.cwd / "up").exists)
    wait_for(lambda: len(bench.left()) == 3)
    first.kill()
    first.communicate()
    assert len(bench.left()) == 2
    assert sweep("no-such-" + bench.token) == 0
    assert len(bench.left()) == 2
    assert sweep(bench.token) == 2
    assert sweep(bench.token) == 0


def test_sweep_spares_the_program_that_asks(bench):
    code = f"""
        sys.path.insert(0, {str(Path(process.__file__).parents[3])!r})
        from accel_lab.execution.processes.process import sweep
        print(sweep(os.environ["{MARKER}"]))
    """
    assert bench.run(code).exit_code == 0
    assert bench.stdout.read_text() == "0\n"


# ---- a child of somebody else: the warm server's

SERVER = """
    import gc, os, signal, sys, time
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        setsid, code = line.rstrip("\\n").split(" ", 1)
        pid = os.fork()
        if pid == 0:
            if setsid == "own":
                os.setsid()
            exec(code.replace("\\\\n", "\\n"))
            os._exit(0)
        print(pid, flush=True)
"""


class Server:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        command = [sys.executable, "-S", "-c", textwrap.dedent(SERVER), bench.token]
        self.marker = "server-" + bench.token
        self.popen = spawn(command, cwd=bench.cwd, env={**bench.env, MARKER: self.marker})

    def fork(self, session: str, code: str) -> int:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.write(f"{session} {code}\n".encode())
        self.popen.stdin.flush()
        return int(self.popen.stdout.readline())

    def watch(self, pid: int, **limits) -> Watch:
        return Watch(
            pid, marker=f"{pid}-{self.bench.token}", limits=Limits(**limits), outputs=[self.bench.stdout]
        )


@pytest.fixture
def server(bench):
    server = Server(bench)
    yield server
    Watch(server.popen.pid, marker=server.marker, limits=Limits(), outputs=()).stop()
    server.popen.communicate()


def poll_until_passed(watched: Watch) -> str:
    for _ in range(4000):
        passed = watched.poll()
        if passed:
            return passed
        time.sleep(watched.pause)
    raise AssertionError("no limit was passed")


@pytest.mark.parametrize("session", ["own", "shared"])
@pytest.mark.parametrize(
    ("code", "limits", "expected"),
    [
        (NAP, {"timeout_s": 0.3}, "timeout"),
        ("block = b'x' * 150_000_000; time.sleep(40)", {"memory_mb": 100}, "memory"),
        ("[os.fork() for _ in range(6)]; time.sleep(40)", {"processes": 20}, "processes"),
        ("open(r'../stdout.txt', 'w').write('x' * 4_000_000); time.sleep(40)", {"output_mb": 2}, "output"),
    ],
    ids=["timeout", "memory", "processes", "output"],
)
def test_watch_ends_one_child_of_the_server_and_no_other(bench, server, session, code, limits, expected):
    other = server.watch(server.fork(session, NAP))
    mine = server.watch(server.fork(session, code), **limits)
    assert other.poll() is None
    assert poll_until_passed(mine) == expected
    mine.stop()
    assert other.poll() is None
    assert len(other.members()) == 1
    assert sorted(bench.left()) == sorted([server.popen.pid, other.members()[0].pid])
    other.stop()
    assert bench.left() == [server.popen.pid]


def test_watch_of_a_child_that_has_ended(bench, server):
    pid = server.fork("own", "pass")
    wait_for(lambda: process_table.read(pid) is None)
    late = server.watch(pid, timeout_s=30)
    assert late.poll() is None
    late.stop()
    assert late.peak_mb == 0
    assert bench.left() == [server.popen.pid]


def test_watch_finds_what_an_ended_child_has_left(bench, server):
    pid = server.fork("own", "time.sleep(0.5); os.fork() or time.sleep(40)")
    watched = server.watch(pid)
    assert watched.poll() is None
    wait_for(lambda: process_table.read(pid) is None)
    assert watched.poll() is None
    assert len(bench.left()) == 2
    watched.clear()
    assert bench.left() == [server.popen.pid]


def test_daemon_of_a_child_of_the_server(bench, server):
    code = textwrap.dedent(DAEMON).replace("sys.argv[2]", "0.3").strip().replace("\n", "\\n")
    watched = server.watch(pid := server.fork("own", code))
    wait_for(lambda: watched.poll() is None and process_table.read(pid) is None)
    watched.clear()
    assert bench.left() == [server.popen.pid]


def test_watch_stopped_for_a_reason_of_the_caller(bench, server):
    code = r"try:\n open('up', 'w')\n time.sleep(40)\nexcept BaseException: open('asked', 'w')"
    watched = server.watch(server.fork("own", code))
    assert watched.poll() is None
    wait_for((bench.cwd / "up").exists)
    watched.stop("interrupted")
    assert watched.passed == "interrupted"
    assert (bench.cwd / "asked").exists()
    assert bench.left() == [server.popen.pid]


def test_ending_the_server_ends_its_children(bench, server):
    for session in ("own", "shared"):
        server.fork(session, NAP)
    assert len(bench.left()) == 3
    Watch(server.popen.pid, marker=server.marker, limits=Limits(), outputs=()).stop()
    assert bench.left() == []
    assert server.popen.wait() != 0


# ---- without a process table


def test_without_proc_the_group_is_ended(bench, monkeypatch):
    for module in (process, watch):
        monkeypatch.setattr(module, "HAVE_PROC", False)
    over = threading.Event()

    def init() -> None:
        """Where there is no /proc there is no adoption either: process 1 reaps the orphans."""
        while not over.wait(0.05):
            process_table.REGISTER.reap()

    thread = threading.Thread(target=init)
    thread.start()
    deaf = "for n in (2, 15): signal.signal(n, signal.SIG_IGN)\n"
    try:
        assert bench.run("sys.exit(7)").exit_code == 7
        assert bench.run("os.abort()").signal == signal.SIGABRT
        assert bench.run("os.fork()\n" + NAP, limits=Limits(timeout_s=0.5)).limit == "timeout"
        assert bench.left() == []
        assert bench.run("if os.fork() == 0: time.sleep(40)").exit_code == 0
        assert bench.left() == []
        assert bench.run(deaf + "os.fork()\n" + NAP, limits=Limits(timeout_s=0.5)).limit == "timeout"
        assert bench.left() == []
        assert bench.command(["yes"], limits=Limits(output_mb=2)).limit == "output"
    finally:
        over.set()
        thread.join()
