"""What a user installs and starts: the wheel is whole, the command line does without the heavy imports."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "bisect"
# Each of the first costs more than the rest of the command line; the others belong to single commands.
NEVER = ("torch", "matplotlib", "docker", "requests")
NOT_AT_THE_TOP = ("numpy", "jinja2", "jsonschema", "uv")
LOCK_NAMES = ("lab", "dev", "torch")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter from an empty point of view: only the source root is added to its path."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def normalised(name: str) -> str:
    """Return a distribution's name in the form in which registries compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def array_of(key: str) -> list[str]:
    """Return the distributions' names of a list of requirements in pyproject.toml.

    Read by a pattern because `tomllib` came with Python 3.11 and the lab runs on 3.10.
    """
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = re.search(rf"^{key} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    return [
        normalised(name) for name in re.findall(r'^\s*"([\w.-]+?)(?:[<>=~!].*)?",?$', block.group(1), re.M)
    ]


@functools.cache
def lock(name: str) -> dict[str, list[str]]:
    """Return the requirements of a lock, each with its hashes."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in (ROOT / ".locks" / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            current += re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
        else:
            current = entries.setdefault(line.removesuffix("\\").strip(), [])
    return entries


@pytest.mark.parametrize(
    ("arguments", "heavy"), [(("--help",), NEVER + NOT_AT_THE_TOP), (("bisect", "--help"), NEVER)]
)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    program = (
        "import json, sys\n"
        "from accel_lab.cli.main import main\n"
        "sys.argv = ['accel-lab', *sys.argv[1:]]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = run_python("-c", program, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    imported = json.loads(done.stderr.splitlines()[-1])
    assert "accel_lab.cli.main" in imported
    assert [name for name in heavy if name in imported] == []


def test_help_is_the_same_by_module() -> None:
    done = run_python("-m", "accel_lab", "--help")
    assert done.returncode == 0, done.stderr
    assert "bisect" in done.stdout


def test_package_says_that_it_is_typed() -> None:
    assert (SOURCE / "accel_lab" / "py.typed").is_file()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of what it is made of, without the network."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed, and building must not download it")
    if tuple(int(part) for part in setuptools_version().split(".")[:1]) < (77,):
        pytest.skip(f"setuptools {setuptools_version()} is older than pyproject.toml asks for")
    tree = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(SOURCE, tree / "bisect", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    done = run_python(*build, "--wheel-dir", str(tree / "dist"), str(tree))
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (tree / "dist").iterdir()
    return made


def setuptools_version() -> str:
    """Return the installed version of setuptools without importing it: it meddles with distutils."""
    from importlib.metadata import version

    return version("setuptools")


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    expected = {
        file.relative_to(SOURCE).as_posix()
        for file in (SOURCE / "accel_lab").rglob("*")
        # Caches of the tools begin with a dot, bar one.
        if file.is_file() and not re.search(r"/(\.|__pycache__)", file.as_posix().removeprefix(str(SOURCE)))
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("accel_lab/")}
    assert held == expected
    assert any(name.startswith("accel_lab/child/") for name in held)
    assert {"accel_lab/py.typed", "accel_lab/reporting/findings.schema.json"} <= held


def test_wheel_declares_the_command_and_the_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
        scripts = archive.read(metadata.replace("METADATA", "entry_points.txt")).decode()
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert "accel-lab = accel_lab.cli.main:main" in scripts
    assert {f"Provides-Extra: {name}" for name in ("torch", "dev", "dashboard")} <= set(text.splitlines())
    # Nothing but the package and its metadata: a `bisect` or `docker` beside it would shadow other packages.
    assert tops == {"accel_lab", metadata.split("/")[0]}


@pytest.mark.parametrize("name", LOCK_NAMES)
def test_lock_pins_and_hashes_everything(name: str) -> None:
    assert lock(name)
    for requirement, hashes in lock(name).items():
        assert re.fullmatch(r"[a-z0-9.-]+==\S+( ; .+)?", requirement), requirement
        assert hashes, requirement


@pytest.mark.parametrize("name", LOCK_NAMES)
def test_lock_names_no_host(name: str) -> None:
    text = (ROOT / ".locks" / f"{name}.txt").read_text("utf-8")
    assert re.search(r"://|--(extra-)?index|--find-links|#", text) is None


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("lab", ["dependencies"]),
        ("dev", ["dependencies", "dev", "dashboard"]),
        ("torch", ["dependencies", "torch"]),
    ],
)
def test_lock_holds_what_the_project_declares(name: str, keys: list[str]) -> None:
    pinned = {normalised(requirement.split("==")[0]) for requirement in lock(name)}
    declared = {requirement for key in keys for requirement in declared_in(key)}
    assert declared - pinned == set()


def declared_in(key: str) -> list[str]:
    """Return `array_of` a key after making sure that the pattern read anything."""
    names = array_of(key)
    assert names, f"no requirements read under {key}"
    return names


def test_locks_agree_so_that_they_install_together() -> None:
    """pip refuses two pins of one package, so what both locks hold must be pinned and hashed alike."""
    assert lock("lab").items() <= lock("dev").items()
    first, second = (
        {requirement.split(" ;")[0]: hashes for requirement, hashes in lock(name).items()}
        for name in ("dev", "torch")
    )
    names = {pin.split("==")[0] for pin in first} & {pin.split("==")[0] for pin in second}
    assert len(names) > 10
    assert {pin: hashes for pin, hashes in first.items() if pin.split("==")[0] in names} == {
        pin: hashes for pin, hashes in second.items() if pin.split("==")[0] in names
    }
