"""The images that the daemon keeps: which are the lab's, what they take, and which are never removed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from accel_lab.cli.commands.env_command import command
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.docker import images as docker_images
from accel_lab.environments.docker.build import PYTHON_AT, SLIM, TORCH, WHEELS
from accel_lab.environments.docker.images import ImageShelf
from accel_lab.environments.docker.leftovers import DEADLINE, OWNER, RUN
from accel_lab.environments.docker.uses import note_use
from accel_lab.environments.store.folder import DAY_S, Store
from accel_lab.environments.store.pruning import Pruned, prune
from fakes_docker import FakeDaemon, FakeImage, api_error

BASE = ("debootstrap", 400)
WHEEL = "torch-{}-cp311-cp311-manylinux_2_28_x86_64.whl"
GONE = EnvironmentUnavailable("no docker daemon answers")


def built(version: str, *steps: tuple[str, int], name: str = "", **labels: str) -> FakeImage:
    """A pinned build as the lab makes it: the base, torch, and what came on top."""
    layers = [BASE, (f"COPY torch {version}", 1000), *steps]
    made = FakeImage(
        name or f"accel-lab-torch:{version}",
        {
            TORCH: version,
            PYTHON_AT: "/opt/torch/bin/python",
            WHEELS: json.dumps({WHEEL.format(version): "0" * 64, "numpy-2.0.0-py3-none-any.whl": "1" * 64}),
            **labels,
        },
        size=sum(size for _, size in layers),
    )
    made.steps = layers
    return made


def base() -> FakeImage:
    found = FakeImage("accel-lab-base:bookworm", {"accel-lab.base": "debian"}, size=400)
    found.steps = [BASE]
    return found


@pytest.fixture
def shelf(tmp_path: Path) -> Callable[..., ImageShelf]:
    return lambda *images, daemon=None: ImageShelf(tmp_path, connect=(daemon or FakeDaemon(*images)).connect)


def keys(shelf: ImageShelf) -> list[str]:
    return [entry.key for entry in shelf.entries()]


# -- which they are, and what they take ------------------------------------------------------------


def test_only_what_the_lab_built_counts(shelf: Callable[..., ImageShelf]) -> None:
    twice = built("2.3.0")
    twice.tags.append("registry/theirs:1")
    nameless = built("2.4.0")
    daemon = FakeDaemon(
        built("2.1.0"),
        base(),
        FakeImage("accel-lab"),
        built("2.2.0", name="theirs:built-upon-ours"),  # labels are inherited
        FakeImage("accel-lab-torch:9.9"),  # a name alone does not make it ours
        twice,
        nameless,
    )
    nameless.tags.clear()
    assert keys(shelf(daemon=daemon)) == ["accel-lab-torch:2.1.0"]


def test_what_is_known_of_one_comes_from_its_labels(shelf: Callable[..., ImageShelf]) -> None:
    (entry,) = shelf(built("2.1.0+cpu", name="accel-lab-torch:2.1.0", **{SLIM: "yes"})).entries()
    assert (entry.label, entry.python, entry.slim) == ("torch 2.1.0+cpu slim image", "3.11", True)
    assert entry.provenance["torch"] == "2.1.0+cpu"
    assert entry.provenance["wheels"]["numpy-2.0.0-py3-none-any.whl"] == "1" * 64
    assert (entry.used, entry.in_use, entry.made) == (None, False, 1.6e9)


def test_layers_that_others_have_too_are_nobody_s_own(shelf: Callable[..., ImageShelf]) -> None:
    one, two = built("2.1.0"), built("2.2.0")
    extended = built("2.1.0", ("pip install numpy", 30), name="accel-lab-torch:2.1.0-aa")
    alone = shelf(one, two, extended)
    assert alone.own == {one.tags[0]: 0, two.tags[0]: 1000, extended.tags[0]: 30}
    assert alone.takes(keys(alone)) == 400 + 1000 + 1000 + 30
    assert alone.takes([extended.tags[0]]) == 400 + 1000 + 30  # it keeps the layers of what it stands on
    with_base = shelf(one, two, extended, base())
    assert with_base.takes(keys(with_base)) == 1000 + 1000 + 30
    assert with_base.takes([]) == 0


def test_the_same_step_on_another_ground_is_another_layer(shelf: Callable[..., ImageShelf]) -> None:
    one, two = built("2.1.0", ("same", 7)), built("2.2.0", ("same", 7))
    found = shelf(one, two, base())
    assert found.takes(keys(found)) == 2 * (1000 + 7)


# -- removing --------------------------------------------------------------------------------------


def test_one_with_a_container_stays_even_if_that_has_ended(shelf: Callable[..., ImageShelf]) -> None:
    daemon = FakeDaemon(built("2.1.0"), built("2.2.0"))
    daemon.containers.create("accel-lab-torch:2.1.0", labels={})
    found = shelf(daemon=daemon)
    assert [entry.in_use for entry in sorted(found.entries(), key=lambda e: e.key)] == [True, False]
    assert not found.try_remove("accel-lab-torch:2.1.0", dry_run=True)
    assert not found.try_remove("accel-lab-torch:2.1.0")
    assert found.try_remove("accel-lab-torch:2.2.0")
    assert list(daemon.there) == ["accel-lab-torch:2.1.0"]


def test_what_a_killed_lab_left_behind_holds_nothing(shelf: Callable[..., ImageShelf]) -> None:
    daemon = FakeDaemon(built("2.1.0"))
    left = {RUN: "m", OWNER: "elsewhere 1 1", DEADLINE: "1"}
    daemon.containers.create("accel-lab-torch:2.1.0", labels=left)
    found = shelf(daemon=daemon)
    assert not found.entries()[0].in_use
    assert found.try_remove("accel-lab-torch:2.1.0", dry_run=True)
    assert found.try_remove("accel-lab-torch:2.1.0")
    assert daemon.there == {} and daemon.containers_there == []


def test_a_container_that_comes_at_the_last_moment_keeps_its_image(
    shelf: Callable[..., ImageShelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = FakeDaemon(built("2.1.0"))
    found = shelf(daemon=daemon)
    daemon.containers.create("accel-lab-torch:2.1.0", labels={})
    monkeypatch.setattr(docker_images, "_busy", lambda client: set())
    assert not found.try_remove("accel-lab-torch:2.1.0")
    assert daemon.there


def test_one_that_was_built_anew_or_named_by_the_user_meanwhile_stays(
    shelf: Callable[..., ImageShelf],
) -> None:
    daemon = FakeDaemon(built("2.1.0"))
    found = shelf(daemon=daemon)
    daemon.there["accel-lab-torch:2.1.0"].tags.append("theirs:1")
    assert not found.try_remove("accel-lab-torch:2.1.0")
    daemon.there["accel-lab-torch:2.1.0"] = anew = built("2.1.0")
    anew.id = "sha256:other"
    assert not found.try_remove("accel-lab-torch:2.1.0")
    assert daemon.there


def test_what_the_daemon_refuses_is_one_line(
    shelf: Callable[..., ImageShelf], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = FakeDaemon(built("2.1.0"))

    def refuse(name: str) -> None:
        raise api_error("disk\non fire")

    monkeypatch.setattr(daemon.images, "remove", refuse)
    with pytest.raises(EnvironmentUnavailable, match="docker says: disk on fire"):
        shelf(daemon=daemon).try_remove("accel-lab-torch:2.1.0")


# -- pruning ---------------------------------------------------------------------------------------


def age(folder: Path, image: FakeImage, days: float) -> None:
    """Let an image have been used so long ago."""
    note_use(folder, image.id)
    (file,) = (folder / "docker" / "used").glob(f"{image.id.partition(':')[2][:12]}*")
    moment = time.time() - days * DAY_S
    os.utime(file, (moment, moment))


def test_the_longest_unused_goes_first_and_only_as_far_as_needed(tmp_path: Path) -> None:
    old, new, unknown = built("2.1.0"), built("2.2.0"), built("2.3.0")
    daemon = FakeDaemon(old, new, unknown, base())
    age(tmp_path, old, 40)
    age(tmp_path, new, 2)
    unknown.made = time.time() - 5 * DAY_S
    shelf = ImageShelf(tmp_path, connect=daemon.connect)
    assert keys(shelf) == [new.tags[0], unknown.tags[0], old.tags[0]]
    done, freed = prune(None, images=shelf, older_than_s=4 * DAY_S, dry_run=True)
    assert [row.why for row in done] == ["not used for 40 days", "made 5 days ago, and no use is known"]
    assert (freed, len(daemon.there)) == (2000, 4)
    done, freed = prune(None, images=shelf, max_bytes=2000)
    assert [row.key for row in done if row.removed] == ["accel-lab-torch:2.1.0"]
    assert (freed, len(daemon.there)) == (1000, 3)


def test_one_size_holds_for_environments_and_images_together(tmp_path: Path) -> None:
    store = Store(tmp_path)
    building = store.start("a" * 16)
    (building / "file").write_bytes(b"x" * 100_000)
    store.finish(building, "a" * 16, {"spec": {"torch": "2.0.0"}})
    old = built("2.1.0")
    age(tmp_path, old, 3)
    daemon = FakeDaemon(old, base())

    def go(most: int) -> list[Pruned]:
        images = ImageShelf(tmp_path, connect=daemon.connect)
        return prune(store, images=images, max_bytes=most, dry_run=True)[0]

    assert go(10**9) == []
    assert [row.key for row in go(102_000 + 50_000)] == []
    assert [row.key for row in go(500)] == ["accel-lab-torch:2.1.0", "a" * 16]


# -- the command -----------------------------------------------------------------------------------


def call(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False, standalone_mode=False)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    """A daemon with one build that the command finds."""
    found = FakeDaemon(built("2.1.0"), base())
    monkeypatch.setattr(docker_images, "connector", lambda timeout_s: found.connect)
    return found


@pytest.fixture
def no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def connect() -> Any:
        raise GONE

    monkeypatch.setattr(docker_images, "connector", lambda timeout_s: connect)
    monkeypatch.chdir(tmp_path)


def test_images_are_listed_unless_a_store_alone_is_named(daemon: FakeDaemon, tmp_path: Path) -> None:
    said = call("list").stdout
    assert "accel-lab-torch:2.1.0" in said and "not known" in said and "in docker" in said
    assert "accel-lab-base" not in said
    (row,) = json.loads(call("list", "--provider", "docker", "--json").stdout)["environments"]
    assert (row["provider"], row["bytes"], row["own_bytes"], row["era"]) == ("docker", 1400, 1000, "pinned")
    assert row["provenance"]["id"] == daemon.there["accel-lab-torch:2.1.0"].id
    for words in (("--store", str(tmp_path)), ("--provider", "uv")):
        assert json.loads(call("list", "--json", *words).stdout)["environments"] == []


def test_images_are_pruned_by_name(daemon: FakeDaemon) -> None:
    daemon.there["accel-lab-torch:2.1.0-aa"] = built("2.1.0", ("more", 5), name="accel-lab-torch:2.1.0-aa")
    said = call("prune", "accel-lab-torch:2.1.0")  # not also the other, whose name begins the same
    assert "removed accel-lab-torch:2.1.0 torch 2.1.0 image: named" in said.stdout
    assert list(daemon.there) == ["accel-lab-base:bookworm", "accel-lab-torch:2.1.0-aa"]
    call("prune", "--all")
    assert list(daemon.there) == ["accel-lab-base:bookworm"]


def test_a_store_alone_is_pruned_alone(daemon: FakeDaemon, tmp_path: Path) -> None:
    call("prune", "--all", "--store", str(tmp_path))
    call("prune", "--all", "--provider", "uv")
    assert "accel-lab-torch:2.1.0" in daemon.there


def test_an_image_is_verified_in_a_container(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    facts: dict[str, Any] = {"torch": "2.1.0+cpu", "packages": {"torch": "2.1.0", "Numpy": "2.0.0"}}
    monkeypatch.setattr(docker_images, "ask_interpreter", lambda commands, python, full: facts)
    assert call("verify", "--provider", "docker").return_value == 0
    facts["packages"] = {"torch": "2.1.0"}
    facts["torch"] = "2.2.0"
    said = call("verify", "--provider", "docker", "--remove")
    assert said.return_value == 3
    assert "it holds torch 2.2.0, not 2.1.0; it holds numpy (none), not 2.0.0 (removed)" in said.stdout
    assert "accel-lab-torch:2.1.0" not in daemon.there


@pytest.mark.usefixtures("no_daemon")
def test_no_daemon_is_said_only_to_who_asked_for_docker(tmp_path: Path) -> None:
    said = call("list")
    assert (said.return_value, said.stderr) == (0, "")
    with pytest.raises(EnvironmentUnavailable, match="no docker daemon answers"):
        call("list", "--provider", "docker")
    (tmp_path / "accel-lab.toml").write_text("provider = 'docker'\n")
    said = call("list")
    assert (said.return_value, said.stderr) == (0, "note: no docker daemon answers\n")
