"""The Makefile as a user meets it: what it passes on, what it refuses, which exit codes count as done."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


class Checkout:
    """A copy of the Makefile with an environment whose Python only notes how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".locks").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", ".locks/dev.txt"):
            shutil.copy(ROOT / name, folder / name)
        self.python = folder / "my venv" / "bin" / "python"
        self.python.parent.mkdir(parents=True)
        self.python.write_text(
            "#!/usr/bin/env python3\n"
            "import json, os, sys\n"
            "record = {'argv': sys.argv[1:], 'environment': dict(os.environ)}\n"
            f"open({str(folder / 'calls')!r}, 'a').write(json.dumps(record) + '\\n')\n"
            f"sys.exit(int(open({str(folder / 'exit_code')!r}).read()))\n"
        )
        self.python.chmod(0o755)
        self.exit_with(0)
        self.mark_made()

    def exit_with(self, code: int) -> None:
        (self.folder / "exit_code").write_text(str(code))

    @property
    def stamp(self) -> Path:
        locks = (self.folder / ".locks" / "dev.txt").read_bytes()
        return self.python.parents[1] / f".accel-lab-{hashlib.sha256(locks).hexdigest()[:16]}"

    def mark_made(self) -> None:
        project = hashlib.sha256((self.folder / "pyproject.toml").read_bytes()).hexdigest()
        self.stamp.write_text(f"{self.folder} {project}  -\n")

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["make", *arguments, "VENV=my venv", "LOCKS=dev"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def calls(self) -> list[list[str]]:
        return [record["argv"] for record in self.records()]

    def records(self) -> list[dict[str, list[str]]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path.resolve() / "a checkout")


def test_help_is_the_default_and_names_every_target(checkout: Checkout) -> None:
    done = checkout.make()
    assert done.returncode == 0
    docker = ("docker-image", "docker-build", "docker-base")
    for target in ("setup", "bisect", "test", "bench", "lint", *docker, "help", "clean"):
        assert f"\n  {target} " in done.stdout
    assert "make bisect SCRIPT=" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("SCRIPT=",), ("SCRIPT= ",)])
def test_bisect_without_a_script_is_one_line_and_exit_code_2(
    checkout: Checkout, arguments: tuple[str, ...]
) -> None:
    done = checkout.make("bisect", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "make bisect SCRIPT=path/to/repro.py" in line
    assert checkout.calls() == []


def test_bisect_passes_everything_on(checkout: Checkout) -> None:
    done = checkout.make(
        "bisect",
        "SCRIPT=/some where/it's $HOME.py",
        "ARGS=--size 3 --name 'two words'",
        "VERSIONS=2.6..2.9",
        "OUT=my out",
        "PYTHON_TORCH=/opt/the python",
    )
    assert done.returncode == 0, done.stderr
    options = ["--versions", "2.6..2.9", "--out", "my out", "--python", "/opt/the python"]
    script = ["/some where/it's $HOME.py", "--size", "3", "--name", "two words"]
    assert checkout.calls() == [["-m", "accel_lab", "bisect", *options, *script]]


def test_bisect_leaves_no_trace_of_make_in_the_environment(checkout: Checkout) -> None:
    assert checkout.make("bisect", "SCRIPT=x.py", "OUT=o").returncode == 0
    (record,) = checkout.records()
    traces = ("SCRIPT", "OUT", "LOCKS", "VENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    left = [name for name in record["environment"] if name in traces or name.startswith("LAB_")]
    assert left == []


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 0), (2, 2), (3, 2), (125, 2)])
def test_bisect_is_done_when_the_failure_was_reproduced_or_is_not_there(
    checkout: Checkout, code: int, status: int
) -> None:
    checkout.exit_with(code)
    done = checkout.make("bisect", "SCRIPT=x.py")
    assert done.returncode == status
    assert (f"Error {code}" in done.stderr) == bool(status)


def test_setup_does_nothing_while_the_locks_are_the_same(checkout: Checkout) -> None:
    done = checkout.make("setup")
    assert (done.returncode, done.stdout, checkout.calls()) == (0, "", [])


def test_setup_installs_only_the_project_when_the_checkout_moved(checkout: Checkout) -> None:
    checkout.stamp.write_text("/another checkout\n")
    assert checkout.make("setup").returncode == 0
    installs = [call for call in checkout.calls() if call[:3] == ["-m", "pip", "install"]]
    assert len(installs) == 1
    assert installs[0][-2:] == ["--editable", "."]
    assert checkout.stamp.read_text().startswith(f"{checkout.folder} ")


def test_setup_that_fails_leaves_no_stamp(checkout: Checkout) -> None:
    checkout.stamp.write_text("/another checkout\n")
    checkout.exit_with(1)
    assert checkout.make("setup").returncode == 2
    assert not checkout.stamp.exists()


def test_setup_refuses_an_old_python(checkout: Checkout) -> None:
    checkout.stamp.unlink()
    old = checkout.folder / "old python"
    old.write_text("#!/bin/sh\necho 'setup: Python 3.10 or newer is needed' >&2\nexit 1\n")
    old.chmod(0o755)
    done = checkout.make("setup", f"PYTHON={old}")
    assert done.returncode == 2
    assert "3.10 or newer" in done.stderr
    assert checkout.calls() == []


def test_docker_build_without_a_release_is_one_line(checkout: Checkout) -> None:
    done = checkout.make("docker-build")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "make docker-build TORCH=2.13.0" in line


def test_docker_build_passes_base_and_releases_on(checkout: Checkout) -> None:
    assert checkout.make("docker-build", "TORCH=2.13.0 2.14.1").returncode == 0
    assert checkout.make("docker-build", "TORCH=all", "BASE=my base:1").returncode == 0
    assert checkout.calls() == [
        ["docker/build.py", "2.13.0", "2.14.1"],
        ["docker/build.py", "--base", "my base:1", "all"],
    ]


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        ((), ""),
        (("BASE=mine:1",), "--build-arg BASE=mine:1 "),
        (("DOCKER_ARGS=--build-arg TORCH=slim",), "--build-arg TORCH=slim "),
    ],
)
def test_docker_image_passes_base_and_arguments_on(
    checkout: Checkout, variables: tuple[str, ...], options: str
) -> None:
    done = checkout.make("docker-image", "DOCKER=echo", *variables)
    assert done.stdout == f"build {options}--tag accel-lab .\n"
