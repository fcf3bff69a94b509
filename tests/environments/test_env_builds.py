"""Environments made in earnest, by uv, from what this machine has or may download."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.commands import Commands, plain_environment
from accel_lab.environments.index.pip_settings import NO_INDEX, pip_index
from accel_lab.environments.index.reader import list_wheels
from accel_lab.environments.index.releases import local_part
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.store.folder import Store
from accel_lab.environments.store.thorough_check import verify_entry
from accel_lab.environments.uv.provider import UvProvider
from accel_lab.environments.uv.slim import find_compiler
from accel_lab.execution.processes import process
from kept_builds import KEPT, why_not

pytestmark = [pytest.mark.slow]

COMPILE = """
import torch
@torch.compile
def f(x, w):
    return torch.nn.functional.gelu(x @ w).sum(-1)
x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
out = f(x, w)
out.sum().backward()
torch.testing.assert_close(out, torch.nn.functional.gelu(x @ w).sum(-1))
assert w.grad.shape == w.shape and not torch.cuda.is_available()
conv = torch.compile(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)))
assert conv(torch.randn(2, 3, 8, 8)).shape == (2, 4, 6, 6)
print("compiled")
"""


@pytest.fixture
def options(tmp_path: Path) -> Iterator[EnvironmentOptions]:
    folder = Path(KEPT) if KEPT else tmp_path / "store"
    yield EnvironmentOptions(index=pip_index(), folder=folder)
    if not KEPT:
        shutil.rmtree(folder, ignore_errors=True)  # gigabytes, which pytest would keep


def compiles(python: str, tmp_path: Path) -> bool:
    script = tmp_path / "compile.py"
    script.write_text(COMPILE)
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    said = Commands(process.run, 600.0)([python, str(script)], {**plain_environment(), **cache})
    assert said.ok, said.stderr[-2000:]
    return "compiled" in said.stdout


def test_an_environment_from_a_folder_of_wheels_works(options: EnvironmentOptions, tmp_path: Path) -> None:
    local = list_wheels(replace(options.index, url=NO_INDEX, extra_urls=()), "torch").wheels
    with UvProvider(options, process.run, gpu=False) as maker:
        there = {wheel.version for wheel in local if local_part(wheel.version).startswith("cpu")}
        specs = [maker.spec(release.version) for release in maker.releases()]
        spec = next((spec for spec in specs if spec.torch in there), None)
        if spec is None:
            pytest.skip("no build of torch for the CPU lies among pip's find-links")
        made = maker.make(spec)
        assert made.provenance["torch"] == spec.torch
        assert {"torch", "numpy", "setuptools"} <= {name.lower() for name in made.provenance["packages"]}
        assert compiles(made.python, tmp_path)
        assert maker.make(made.spec).cached
        store = Store(options.folder)
        (entry,) = [entry for entry in store.entries() if entry.key == made.spec.key]
        assert entry.in_use
        assert not store.try_remove(entry.key)
        assert verify_entry(entry, process.run) == []
    with UvProvider(options, process.run, gpu=False) as again:
        assert again.make(made.spec).cached


@pytest.mark.parametrize("version", ["2.1.2", "2.6.0"])
def test_a_slim_install_compiles(options: EnvironmentOptions, tmp_path: Path, version: str) -> None:
    if why := why_not([version]):
        pytest.skip(why)
    if find_compiler() is None:
        pytest.skip("no C compiler to make the stub libraries")
    with UvProvider(replace(options, slim="yes"), process.run, gpu=False) as maker:
        try:
            made = maker.make(maker.spec(version))
        except EnvironmentUnavailable as error:
            pytest.skip(f"torch {version} cannot be had here: {error}")
        assert made.provenance["slim"]["stubs"]
        assert not any(name.startswith("nvidia") for name in made.provenance["packages"])
        assert made.size_bytes < 3 << 30
        assert compiles(made.python, tmp_path)
