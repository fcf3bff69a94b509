"""Against a real daemon: companions put upon a pinned build, and images that are listed, held and removed."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.docker.build import OWN_BASE, PYTHON_AT, TORCH, WHEELS
from accel_lab.environments.docker.images import ImageShelf
from accel_lab.environments.docker.provider import DockerProvider
from accel_lab.environments.index.pip_settings import pip_index
from accel_lab.environments.index.reader import list_wheels
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.store.pruning import prune
from accel_lab.execution.processes import process

pytestmark = pytest.mark.docker

BUILD = "2.13.0"


@pytest.fixture
def client() -> Iterator[Any]:
    found = docker.from_env(timeout=300)
    yield found
    found.close()


def there(client: Any, name: str) -> Any:
    with contextlib.suppress(docker.errors.ImageNotFound):
        return client.images.get(name)
    return None


@pytest.fixture
def small(client: Any) -> Iterator[str]:
    """An image that looks like a pinned build, on the smallest ground that is here."""
    ground = next((n for n in (OWN_BASE, f"accel-lab-torch:{BUILD}", "accel-lab") if there(client, n)), None)
    if ground is None:
        pytest.skip("no image to build upon: make docker-base")
    name = f"accel-lab-torch:0.0.1-{uuid.uuid4().hex[:8]}"
    step = f"head -c 100000 /dev/urandom >/{uuid.uuid4().hex}"
    recipe = f"FROM {ground}\nLABEL {WHEELS}='{{}}'\nUSER 0\nRUN {step}\n"
    client.images.build(
        fileobj=io.BytesIO(recipe.encode()), tag=name, rm=True, labels={TORCH: "0.0.1", PYTHON_AT: "python3"}
    )
    yield name
    with contextlib.suppress(docker.errors.ImageNotFound):
        client.images.remove(name, force=True)


def test_an_image_is_listed_held_by_a_container_and_then_removed(
    client: Any, small: str, tmp_path: Path
) -> None:
    others = {image.id for image in client.images.list()} - {client.images.get(small).id}
    (entry,) = [entry for entry in ImageShelf(tmp_path).entries() if entry.key == small]
    assert (entry.used, entry.in_use, entry.labels[TORCH]) == (None, False, "0.0.1")
    assert ImageShelf(tmp_path).own[small] >= 100_000
    container = client.containers.create(small, ["true"])
    try:
        (done,) = prune(None, images=ImageShelf(tmp_path), keys=[small])[0]
        assert (done.removed, done.why) == (False, "in use")
        assert there(client, small) is not None
    finally:
        container.remove(force=True)
    done_, freed = prune(None, images=ImageShelf(tmp_path), keys=[small])
    assert [row.removed for row in done_] == [True]
    assert freed >= 100_000
    assert there(client, small) is None
    assert {image.id for image in client.images.list()} >= others


def test_one_that_does_not_work_is_found_out(small: str, tmp_path: Path) -> None:
    (fault,) = ImageShelf(tmp_path).verify(small)
    assert "torch" in fault


@pytest.mark.slow
def test_a_companion_is_swapped_on_a_pinned_build(client: Any, tmp_path: Path) -> None:
    """The way that the version axis goes at a flip: another setuptools, and nothing else."""
    if there(client, f"accel-lab-torch:{BUILD}") is None:
        pytest.skip(f"no image accel-lab-torch:{BUILD}: make docker-build TORCH={BUILD}")
    try:
        list_wheels(pip_index(), "setuptools")
    except EnvironmentUnavailable as error:
        pytest.skip(f"no package index: {error}")
    options = EnvironmentOptions(folder=tmp_path / "store", index=pip_index())
    with DockerProvider(options, process.run) as provider:
        plain = provider.make(provider.spec(BUILD))
        packages = plain.provenance["packages"]
        wanted = f"{int(packages['setuptools'].partition('.')[0]) - 1}.0.0"
        try:
            swapped = provider.make(provider.spec(BUILD, pins=[("setuptools", wanted)]))
            name = swapped.provenance["image"]
            assert swapped.provenance["packages"] == {**packages, "setuptools": wanted}
            assert swapped.provenance["torch"] == plain.provenance["torch"]
            assert provider.make(provider.spec(BUILD, pins=[("setuptools", wanted)])).cached
            assert swapped.spec.key != plain.spec.key
            shelf = ImageShelf(tmp_path / "store")
            # An image has more than one name where another run of the tests makes the same one.
            assert [entry.in_use for entry in shelf.entries() if name in entry.names] == [True]
        finally:
            provider.close()
            with contextlib.suppress(docker.errors.ImageNotFound, NameError):
                client.images.remove(name, force=True)
