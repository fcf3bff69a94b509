"""Against a real daemon: hostile scripts in the runner, probes in pinned images, and the lab's own image."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.process_exit import ProcessExit
from accel_lab.core.stages import Rung
from accel_lab.environments.docker.build import OWN_BASE
from accel_lab.environments.docker.client import connector
from accel_lab.environments.docker.leftovers import RUN
from accel_lab.environments.docker.provider import DockerProvider
from accel_lab.environments.docker.runner import DockerRunner
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.execution.prober import Prober
from accel_lab.execution.processes import process
from accel_lab.execution.run_folder.folder_views import LINKS
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.workloads.registry import MODELS

pytestmark = pytest.mark.docker

ROOT = Path(__file__).resolve().parents[3]
LAB_IMAGE = "accel-lab"
PINNED = ("2.13.0", "2.14.1")
# A golden case that fails on the first of them and passes on the second, and one for the lab's own torch.
CASE = "148475-shape-error-handler"
IMAGE_CASE, IMAGE_STAGE = "inject-decomposition", "decomposition"
QUICK = {"timeout_s": 60.0, "memory_mb": 512, "output_mb": 4, "file_mb": 8, "processes": 50}


@pytest.fixture
def client() -> Iterator[Any]:
    found = docker.from_env(timeout=60)
    yield found
    found.close()


@functools.cache
def there(*names: str) -> str | None:
    """The first of these images that the daemon has."""
    with contextlib.closing(docker.from_env(timeout=60)) as found:
        for name in names:
            with contextlib.suppress(docker.errors.ImageNotFound):
                return str(found.images.get(name).id)
    return None


def needs(name: str, how: str) -> str:
    image = there(name)
    if image is None:
        pytest.skip(f"no image {name}: {how}")
    return image


class Box:
    """Runs scripts in containers of an image that has Python."""

    def __init__(self, folder: Path, image: str) -> None:
        self.folder = folder
        self.runner = DockerRunner(
            connect=connector(), image=image, python="python3", keep=folder / "run" / "docker"
        )
        self.count = 0

    def run(
        self, text: str, *, stop: threading.Event | None = None, **limits: Any
    ) -> tuple[ProcessExit, str, str]:
        """How it ended, and what it said."""
        self.count += 1
        place = self.folder / "run" / "probes" / str(self.count)
        (place / "cwd").mkdir(parents=True)
        script = self.folder / f"user{self.count}" / "script.py"
        script.parent.mkdir()
        script.write_text(text)
        out, err = place / "stdout.txt", place / "stderr.txt"
        ended = self.runner(
            ["python3", str(script)],
            cwd=place / "cwd",
            env={**os.environ, "SECRET_OF_THIS_MACHINE": "1"},
            stdout=out,
            stderr=err,
            limits=Limits(**{**QUICK, **limits}),
            marker=f"test-{self.count}",
            stop=stop,
        )
        return ended, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")


@pytest.fixture
def box(tmp_path: Path, client: Any) -> Iterator[Box]:
    image = there(OWN_BASE, *(f"accel-lab-torch:{version}" for version in PINNED), LAB_IMAGE)
    if image is None:
        pytest.skip("no image with Python: make docker-base, or make docker-build TORCH=2.13.0")
    yield Box(tmp_path.resolve(), image)
    assert [c for c in client.containers.list(all=True) if c.labels.get(RUN, "").startswith("test-")] == []


# -- hostile scripts -----------------------------------------------------------------------------


def test_an_ordinary_script_runs_and_its_files_come_back(box: Box) -> None:
    ended, out, _ = box.run(
        "import os\nopen('made.txt', 'w').write('x')\nopen('/tmp/x', 'w').write('x')\n"
        "print(os.getuid() != 0, os.getppid() != 0, os.environ.get('SECRET_OF_THIS_MACHINE'))"
    )
    assert (ended.exit_code, ended.signal, ended.limit) == (0, None, None)
    assert out.split() == ["True", "True", "None"]
    assert (box.folder / "run" / "probes" / "1" / "cwd" / "made.txt").read_text() == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="the home of root is what images close")
def test_a_run_below_the_home_of_root_works(box: Box) -> None:
    """Where the lab keeps its runs by default."""
    with tempfile.TemporaryDirectory(dir=Path("/root"), prefix=".accel-lab-test-") as name:
        below = Box(Path(name), box.runner._image)
        ended, out, err = below.run("open('made.txt', 'w').write('x'); print('ran')")
        assert (ended.exit_code, out, err) == (0, "ran\n", "")
        assert (below.folder / "run" / "probes" / "1" / "cwd" / "made.txt").read_text() == "x"


def test_a_run_that_writes_many_files_is_ended(box: Box) -> None:
    text = (
        "import os, time\nfor n in range(100): open(f'{n}', 'wb').write(os.urandom(1 << 20))\ntime.sleep(50)"
    )
    ended, _, _ = box.run(text, disk_mb=20)
    assert ended.limit == "disk"


def test_the_container_of_a_lab_that_is_killed_ends(box: Box, client: Any) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from tests.environments.docker.test_docker_daemon import Box\n"
        "Box(Path(sys.argv[1]), sys.argv[2]).run('import time; time.sleep(50)')\n"
    )
    elsewhere = box.folder / "killed"
    elsewhere.mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    lab = subprocess.Popen([sys.executable, "-c", code, str(elsewhere), box.runner._image], env=env, cwd=ROOT)

    def states() -> list[str]:
        found = client.containers.list(all=True, filters={"label": f"{RUN}=test-1"}, ignore_removed=True)
        return [container.status for container in found]

    try:
        wait_for(lambda: states() == ["running"])
    finally:
        lab.kill()
        lab.wait()
    wait_for(lambda: states() == ["exited"])
    Box(elsewhere / "next", box.runner._image)  # the next lab removes it
    assert states() == []


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 45
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("text", "code", "number"),
    [
        ("raise SystemExit(127)", 127, None),
        ("raise SystemExit(139)", 139, None),
        ("import os; os._exit(125)", 125, None),
        ("import os; os.kill(os.getpid(), 11)", None, 11),
        ("import os; os.kill(os.getppid(), 9)", None, 9),  # the lab's own first program
        ("import os, time; os.kill(1, 9); raise SystemExit(5)", 5, None),  # init does not hear it
    ],
)
def test_its_end_is_told_exactly(box: Box, text: str, code: int | None, number: int | None) -> None:
    ended, _, err = box.run(text)
    assert (ended.exit_code, ended.signal, ended.limit) == (code, number, None), err


def test_there_is_no_network(box: Box) -> None:
    ended, out, _ = box.run(
        "import socket\n"
        "for at in (('192.0.2.1', 80), ('127.0.0.1', 22), ('example.com', 80)):\n"
        "    try: socket.create_connection(at, timeout=5); print('open', at)\n"
        "    except OSError: print('closed')\n"
        "print(sorted(name for _, name in socket.if_nameindex()))"
    )
    assert ended.exit_code == 0
    assert out.split("\n")[:3] == ["closed"] * 3
    assert "eth" not in out


def test_nothing_outside_can_be_written_or_taken(box: Box) -> None:
    ended, out, _ = box.run(
        "import os, sys\n"
        "for path in ('/etc/x', '/x', sys.executable, __file__, '/usr/lib/x', '/proc/sysrq-trigger',\n"
        "             '/sys/kernel/x', os.path.dirname(__file__) + '/y'):\n"
        "    try: open(path, 'a').write('x'); print('wrote', path)\n"
        "    except OSError: pass\n"
        "for act in (lambda: os.setuid(0), lambda: os.chroot('/tmp'), lambda: os.listdir('/root'),\n"
        "            lambda: os.mknod('/tmp/d', 0o60644, 1), lambda: os.stat('/var/run/docker.sock')):\n"
        "    try: act(); print('did', act)\n"
        "    except OSError: pass\n"
        "names = ('CapEff', 'CapBnd', 'NoNewPrivs')\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(names)])"
    )
    assert ended.exit_code == 0
    assert out.strip() == "['0000000000000000', '0000000000000000', '1']"


def test_a_fork_bomb_ends(box: Box) -> None:
    ended, _, _ = box.run(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", processes=20
    )
    assert ended.limit in ("processes", "timeout")
    assert (ended.exit_code, ended.signal) == (None, None)


def test_endless_output_ends_and_is_cut(box: Box) -> None:
    ended, out, _ = box.run("while True: print('x' * 1000)", output_mb=1)
    assert ended.limit == "output"
    assert len(out) <= 1 << 20


def test_endless_memory_ends(box: Box) -> None:
    ended, _, _ = box.run("x = []\nwhile True: x.append(bytearray(10**7))", memory_mb=128)
    assert ended.limit == "memory"


def test_traps_in_the_run_s_folder_are_taken_away(box: Box) -> None:
    ended, out, _ = box.run(
        "import os\nos.chdir('..')\nprint('said', flush=True)\nos.mkfifo('result.json')\n"
        "os.unlink('stdout.txt')\nos.symlink('/etc/passwd', 'stdout.txt')\nos.symlink('/', 'records')"
    )
    assert (ended.exit_code, out) == (0, "said\n")
    left = sorted(path.name for path in (box.folder / "run" / "probes" / "1").iterdir())
    assert left == ["cwd", "stderr.txt", "stdout.txt"]


def test_a_file_that_grows_without_end_stops(box: Box) -> None:
    ended, _, err = box.run("open('big', 'wb').write(b'x' * (20 << 20))", file_mb=1)
    assert ended.exit_code == 1
    assert "File too large" in err


def test_a_sleeper_that_hears_nothing_ends_with_its_children(box: Box) -> None:
    ended, _, _ = box.run(
        "import os, signal, time\n"
        "for number in (2, 15, 10): signal.signal(number, signal.SIG_IGN)\n"
        "os.fork(); os.setsid() if os.fork() == 0 else None\n"
        "while True: time.sleep(1)",
        timeout_s=1.5,
    )
    assert (ended.exit_code, ended.signal, ended.limit) == (None, None, "timeout")


def test_one_that_is_stopped_ends(box: Box) -> None:
    stop = threading.Event()
    timer = threading.Timer(1.0, stop.set)
    timer.start()
    ended, _, _ = box.run("import time; time.sleep(600)", stop=stop)
    timer.join()
    assert ended.limit == "interrupted"


def test_a_program_that_is_missing_is_no_verdict(tmp_path: Path, box: Box, client: Any) -> None:
    broken = DockerRunner(
        connect=connector(), image=box.runner._image, python="/no/such/python", keep=tmp_path
    )
    place = tmp_path / "p"
    place.mkdir()
    with pytest.raises(EnvironmentUnavailable, match="before the command"):
        broken(
            ["x"],
            cwd=place,
            env={},
            stdout=place / "o",
            stderr=place / "e",
            limits=Limits(**QUICK),
            marker="test-broken",
        )


# -- pinned builds -------------------------------------------------------------------------------

CLEAN = """import torch

@torch.compile
def double(x):
    return x.sin() * 2

x = torch.arange(6.0)
torch.testing.assert_close(double(x), x.sin() * 2)
print(torch.__version__)
"""


class Line:
    """The pinned builds as a line of probers on one script."""

    def __init__(self, folder: Path, script: Path) -> None:
        self.provider = DockerProvider(EnvironmentOptions(folder=folder / "store"), process.run)
        self.folder = folder
        self.script = script

    def ask(self, version: str, *, bare: bool = True, rung: Rung = Rung.KERNEL) -> Outcome:
        environment = self.provider.make(self.provider.spec(version))
        workspace = Workspace(self.folder / version, self.script.parent, views=LINKS)
        with Prober(
            python=environment.python,
            workspace=workspace,
            runner=self.provider.runner(environment, workspace),
        ) as prober:
            program = Program(path=str(self.script))
            return prober.ask(
                Probe(program=program, environment=environment.spec.key, bare=bare, rung=rung, cold=True)
            )


@pytest.fixture
def pinned() -> Sequence[str]:
    for version in PINNED:
        needs(f"accel-lab-torch:{version}", f"make docker-build TORCH={version}")
    return PINNED


def test_a_compiled_script_passes_in_a_pinned_image(tmp_path: Path, pinned: Sequence[str]) -> None:
    script = tmp_path / "user" / "clean.py"
    script.parent.mkdir()
    script.write_text(CLEAN)
    found = Line(tmp_path, script).ask(pinned[0], bare=False)
    assert found.status is Status.OK, (found.notes, Path(found.folder, "stderr.txt").read_text()[-2000:])
    assert found.torch.startswith(pinned[0])
    assert found.facts["regions"]
    assert list((Path(found.folder) / "artifacts").iterdir())  # what the kernel stage made came back


def test_a_bisection_across_two_pinned_images(tmp_path: Path, pinned: Sequence[str]) -> None:
    """A golden case that is there on the older build and not on the newer one."""
    script = ROOT / "repros" / CASE / "repro.py"
    line = Line(tmp_path, script)
    older, newer = (line.ask(version) for version in pinned)
    assert older.status is not Status.OK
    assert newer.status is Status.OK, Path(newer.folder, "stderr.txt").read_text()[-2000:]


# -- the lab's own image -------------------------------------------------------------------------


class Lab:
    """The image `accel-lab`, run as a person would, but without a network."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, *arguments: str, volumes: dict[str, Any] | None = None) -> tuple[int, str, str]:
        container = self._client.containers.run(
            LAB_IMAGE, list(arguments), network_mode="none", detach=True, volumes=volumes or {}
        )
        try:
            code = container.wait(timeout=900)["StatusCode"]
            return code, *(
                container.logs(stdout=out, stderr=not out).decode("utf-8", "replace") for out in (True, False)
            )
        finally:
            container.remove(force=True)


@pytest.fixture
def lab(client: Any) -> Lab:
    needs(LAB_IMAGE, "make docker-image")
    return Lab(client)


def test_the_image_is_not_root_and_says_what_it_is(lab: Lab, client: Any) -> None:
    config = client.images.get(LAB_IMAGE).attrs["Config"]
    assert config["User"] not in ("", "0", "root")
    assert config["Labels"]["org.opencontainers.image.title"] == "accel-lab"
    assert config["Entrypoint"] == ["accel-lab"]
    assert config["StopSignal"] == "SIGINT"


def test_the_image_shows_its_help(lab: Lab) -> None:
    code, out, err = lab.run("--help")
    assert code == 0, err
    assert "bisect" in out
    assert lab.run()[1] == out


def test_the_image_measures_all_workloads(lab: Lab) -> None:
    """Inductor's C++ compiler is shown to work in the image by one model, for it takes minutes with all."""
    options = ["--size", "small", "--runs", "1", "--json"]
    asked = (
        ["--all", "--backend", "eager", "--backend", "mock"],
        ["--model", "resnet18", "--backend", "inductor"],
    )
    found = []
    for words in asked:
        code, out, err = lab.run("bench", *words, *options)
        assert code == 0, err[-3000:]
        found.append(json.loads(out))
        assert found[-1]["schema"].startswith("accel-lab/bench/")
    assert {row["model"] for row in found[0]["rows"]} == set(MODELS)
    assert {row["backend"] for row in found[1]["rows"]} >= {"inductor"}


def test_the_image_gives_the_tour(lab: Lab) -> None:
    """`docker run accel-lab demo --yes`: the mock needs no compiler, no GPU and no network."""
    code, out, err = lab.run("demo", "--yes")
    assert code == 0, out[-3000:] + err[-3000:]
    for words in ("VIOLATES", "memory_plan.txt", "The mock accelerator's back end", "MATCH", "That was all"):
        assert words in out, words
    code, _, err = lab.run("demo")
    assert code == 2 and "accel-lab demo --yes" in err


def test_the_image_bisects_a_script_of_the_user(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text((ROOT / "repros" / IMAGE_CASE / "repro.py").read_text())
    for path, mode in ((tmp_path, 0o755), (tmp_path / "repro.py", 0o644)):
        path.chmod(mode)
    volumes = {str(tmp_path): {"bind": "/repro", "mode": "ro"}}
    options = ["--json", "--no-minimize", "--no-workarounds", "--no-components", "--no-bundle"]
    code, out, err = lab.run("bisect", *options, "/repro/repro.py", volumes=volumes)
    assert code == 1, err[-3000:]
    found = json.loads(out)
    assert found["schema"] == "accel-lab/findings/1"
    assert found["culprit"]["stage"] == IMAGE_STAGE
