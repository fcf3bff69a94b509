"""What every test may lean on: a home for the lab's state, and the interpreters that have torch."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.workspace import Workspace

# No test asserts on time: a busy machine is no failure.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Modules of minutes, the longest first: workers that share out whole modules start with them, lest one is
#: left alone with the longest at the end.
LONGEST = (
    "test_golden",
    "test_versions_line",
    "test_versions_builds",
    "test_minimize_cli",
    "test_docker_daemon",
    "test_accelerator_cli",
    "test_loops",
    "test_cli",
)
#: Modules that start real compilers again and again: `make test` leaves them to `make test-all`.
SLOW = frozenset(
    {
        *(set(LONGEST) - {"test_cli"}),
        *("test_numeric_patterns", "test_kills", "test_child", "test_kernel_child"),
        *("test_python_kernels_child", "test_front_child", "test_pass_child", "test_env_builds"),
        *("test_bundle_rerun", "test_bench_cli", "test_docker_provider", "test_docker_upkeep"),
        *("test_docker_verify", "test_wrapper", "test_workloads"),
    }
)
STATE_VARIABLES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "ACCEL_LAB_HOME")


@functools.cache
def interpreters_with_torch() -> tuple[str, ...]:
    """Return the interpreters to probe: this one if it has torch, then those of ACCEL_LAB_PYTHONS.

    torch is looked for, never imported: that costs seconds and the lab's own process must do without it.
    """
    found = [sys.executable] if importlib.util.find_spec("torch") is not None else []
    named = [name for name in os.environ.get("ACCEL_LAB_PYTHONS", "").split(os.pathsep) if name]
    for name in named:
        if not os.access(name, os.X_OK):
            raise pytest.UsageError(f"ACCEL_LAB_PYTHONS names {name}, which is not a program")
    return tuple(dict.fromkeys(found + named))


@functools.cache
def browser_path() -> str | None:
    """Return the first headless-capable browser on the PATH."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@functools.cache
def docker_answers() -> bool:
    """Tell whether a Docker daemon answers; the SDK raises many kinds of error where none does."""
    try:
        import docker

        return bool(docker.from_env(timeout=5).ping())
    except Exception:
        return False


def vector_units_compile() -> bool:
    """Tell whether the C++ compiler knows all vector units that Inductor may choose on such a machine."""
    compiler = shutil.which("g++")
    if platform.machine() != "x86_64" or compiler is None or "CXX" in os.environ:
        return False
    flags = [f"-m{unit}" for unit in ("avx2", "fma", "avx512f", "avx512bw", "avx512vnni", "amx-tile")]
    command = [compiler, *flags, "-x", "c++", "-fsyntax-only", os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def reason_to_skip(item: pytest.Item) -> str | None:
    """Return what the test's markers ask for and this machine lacks."""
    if item.get_closest_marker("torch") and not interpreters_with_torch():
        return "no interpreter has torch: install it beside pytest or name one in ACCEL_LAB_PYTHONS"
    if item.get_closest_marker("builds") and len(interpreters_with_torch()) < 2:
        return "fewer than two torch builds: name interpreters in ACCEL_LAB_PYTHONS"
    if item.get_closest_marker("browser") and browser_path() is None:
        return f"no browser on the PATH ({', '.join(BROWSERS)})"
    if item.get_closest_marker("docker") and not docker_answers():
        return "no Docker daemon answers"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out, and put the long modules first where workers share the tests."""
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        rank = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := reason_to_skip(item):
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the lab's caches, configuration and runs away from those of the person who runs the tests."""
    home = tmp_path_factory.mktemp("lab-home")
    with pytest.MonkeyPatch.context() as patch:
        for name in STATE_VARIABLES:
            folder = home / name.lower()
            folder.mkdir()
            patch.setenv(name, str(folder))
        # Else each process that compiles builds three test programs to find out, which takes as long as all
        # the rest of a small kernel.
        if vector_units_compile():
            patch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "1")
        # Where triton is installed, each compiling process would start helpers that import torch and Triton,
        # also on a CPU; torch's own switch for it.
        patch.setenv("TORCH_WARM_POOL", "0")
        patch.setenv("ACCEL_LAB_VERIFY", "0")  # a cold run for each bundle; the tests of it ask for it
        patch.setenv("ACCEL_LAB_SERVERS", "")  # none is left behind by a test; the tests of it ask for it
        yield home


@pytest.fixture(scope="session")
def torch_pythons() -> tuple[str, ...]:
    """All interpreters with torch, this environment's first."""
    if not interpreters_with_torch():
        pytest.skip("no interpreter has torch: install it beside pytest or name one in ACCEL_LAB_PYTHONS")
    return interpreters_with_torch()


@pytest.fixture(scope="session")
def torch_python(torch_pythons: tuple[str, ...]) -> str:
    """The interpreter with torch that a test uses when any will do."""
    return torch_pythons[0]


@pytest.fixture(scope="module")
def prober(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prober]:
    """A prober with a warm server, in an empty folder."""
    root, cwd = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("cwd")
    with Prober(python=torch_python, workspace=Workspace(root, cwd)) as made:
        made.warm_up()
        yield made


@pytest.fixture(scope="session")
def browser() -> str:
    """The program that renders pages without a screen."""
    path = browser_path()
    if path is None:
        pytest.skip(f"no browser on the PATH ({', '.join(BROWSERS)})")
    return path
