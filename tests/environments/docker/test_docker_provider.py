"""The docker provider and its table: which images there are, how one is made, what is said when it is not."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Environment, EnvironmentUnavailable, Release
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.environments.docker import provider as docker_provider
from accel_lab.environments.docker import wheels as docker_wheels
from accel_lab.environments.docker.build import OWN_BASE, PYTHON_AT, RECIPE_KEY, SLIM, TORCH, WHEELS
from accel_lab.environments.docker.images import ImageShelf
from accel_lab.environments.docker.pinned_builds import find_folder, is_slim, read_table
from accel_lab.environments.docker.provider import DockerProvider
from accel_lab.environments.docker.uses import use_lock
from accel_lab.environments.options import EnvironmentOptions
from fakes_docker import FakeDaemon, FakeImage

ROOT = Path(__file__).resolve().parents[3]
CPU = "torch-2.1.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
CUDA = "torch-2.1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
NUMPY = "numpy-2.0.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"


def wheel_file(name: str) -> bytes:
    """A wheel with next to nothing in it, the same every time."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{name.partition('-')[0]}/__init__.py"), name)
    return data.getvalue()


def sha256(name: str) -> str:
    return hashlib.sha256(wheel_file(name)).hexdigest()


def row(version: str = "2.1.0", wheels: tuple[str, ...] = (CPU, CUDA, NUMPY)) -> str:
    listed = "".join(f'  {{ name = "{name}", sha256 = "{sha256(name)}" }},\n' for name in wheels)
    return (
        f'[[build]]\nversion = "{version}"\nuploaded = "2023-10-04"\npython = "3.11"\n'
        f'base = "python:3.11-slim@sha256:00"\nwheels = [\n{listed}]\n'
    )


class Pip:
    """Stands for ``execution.process.run``: pip, which has some wheels and not others, and uv, which resolves
    to what it is told to hold and what is asked for by version.
    """

    def __init__(self, *has: str) -> None:
        self.has = has
        self.calls: list[list[str]] = []

    def __call__(self, command: list[str], *, stdout: Path, stderr: Path, **_: Any) -> ProcessExit:
        self.calls.append(command)
        stdout.touch()
        stderr.touch()
        if "compile" in command:
            at = command.index("--overrides")
            asked = [Path(command[at + n]).read_text().split() for n in (1, 2)]
            stdout.write_text("\n".join(line for line in dict.fromkeys(asked[0] + asked[1]) if "==" in line))
            return ProcessExit(exit_code=0)
        assert command[1:4] == ["-m", "pip", "download"], command
        target = Path(command[command.index("--dest") + 1])
        target.mkdir()
        wanted = command[-1]
        if "--requirement" in command:
            wanted = Path(command[command.index("--requirement") + 1]).read_text().split(" --hash")[0]
        project, _, version = wanted.partition("==")
        for name in self.has:
            if name.split("-")[0] == project and name.split("-")[1] == version:
                (target / name).write_bytes(wheel_file(name))
                return ProcessExit(exit_code=0)
        stderr.write_text(f"ERROR: Could not find a version\nERROR: No matching distribution for {wanted}\n")
        return ProcessExit(exit_code=1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "docker"
    folder.mkdir()
    for name in ("Dockerfile", "Dockerfile.companions"):
        (folder / name).write_text((ROOT / "docker" / name).read_text())
    (folder / "builds.toml").write_text(row())
    return folder / "builds.toml"


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the interpreter of an image says when it is asked."""
    facts: dict[str, Any] = {"python": "3.11.2", "torch": "2.1.0+cpu", "packages": {"numpy": "2.0.0"}}
    monkeypatch.setattr(docker_provider, "ask_interpreter", lambda commands, python: facts)
    return facts


def provider(table: Path, daemon: FakeDaemon, pip: Pip | None = None, **settings: Any) -> DockerProvider:
    options = {"builds": table, "folder": table.parent / "store", **settings.pop("options", {})}
    return DockerProvider(
        EnvironmentOptions(**options), pip or Pip(), connect=lambda timeout_s: daemon.connect, **settings
    )


def image(version: str = "2.1.0", **labels: str) -> FakeImage:
    return FakeImage(f"accel-lab-torch:{version}", {PYTHON_AT: "/opt/torch/bin/python", **labels})


# -- the table -----------------------------------------------------------------------------------


def test_the_table_of_this_checkout_is_sound() -> None:
    folder = find_folder()
    assert folder is not None
    builds = read_table(folder / "builds.toml")
    assert {"2.13.0", "2.14.1"} <= {build.version for build in builds}
    for build in builds:
        assert "@sha256:" in build.base
        assert len(build.base.partition("@sha256:")[2]) == 64
        assert {"numpy", "sympy", "setuptools"} <= {wheel.project for wheel in build.companions}
        projects = [wheel.project for wheel in build.companions]
        assert len(projects) == len(set(projects))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('python = "3.11"', "", "`python` is missing"),
        (CPU, CPU.replace("2.1.0", "2.2.0"), "is not torch 2.1.0"),
        (sha256(NUMPY), "abc", "sha256 of numpy"),
        (NUMPY, "numpy-2.0.0.tar.gz", "not the name of a wheel"),
        (NUMPY, "../../x/" + NUMPY, "not the name of a wheel"),
        ("[[build]]", "[[build]", "not valid TOML"),
    ],
)
def test_a_wrong_row_is_one_line(table: Path, old: str, new: str, says: str) -> None:
    table.write_text(row().replace(old, new, 1))
    with pytest.raises(UsageError, match=says) as raised:
        read_table(table)
    assert "\n" not in str(raised.value)


def test_a_row_without_torch_and_two_rows_of_a_release_are_refused(table: Path) -> None:
    table.write_text(row(wheels=(NUMPY,)))
    with pytest.raises(UsageError, match="no wheel of torch"):
        read_table(table)
    table.write_text(row() + row())
    with pytest.raises(UsageError, match=r"more than one row of 2\.1\.0"):
        read_table(table)


def test_a_build_for_the_cpu_is_not_slim_and_one_for_cuda_is(table: Path) -> None:
    assert [is_slim(wheel) for wheel in read_table(table)[0].torch] == [False, True]


def test_a_table_that_was_named_and_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no table"):
        find_folder(tmp_path / "none.toml")


# -- which releases ------------------------------------------------------------------------------


def test_releases_are_the_images_that_are_there(table: Path) -> None:
    daemon = FakeDaemon(image("2.9.0"), image("2.10.0"), image("2.11.0rc1"), FakeImage("other:2.8.0"))
    found = provider(table, daemon).releases()
    assert [release.version for release in found] == ["2.9.0", "2.10.0"]
    assert [release.version for release in provider(table, daemon).releases(pre=True)][-1] == "2.11.0rc1"


def test_an_image_with_other_companions_is_no_release(table: Path) -> None:
    daemon = FakeDaemon(image("2.9.0"), image("2.9.0-0123abcd"))
    assert [release.version for release in provider(table, daemon).releases()] == ["2.9.0"]


def test_rows_count_where_building_is_allowed(table: Path) -> None:
    daemon = FakeDaemon(image("2.9.0"))
    found = provider(table, daemon, options={"build_images": True}).releases()
    assert found == [
        Release(version="2.1.0", uploaded="2023-10-04", pythons=("cp311",), sha256=sha256(CPU)),
        Release(version="2.9.0"),
    ]


def test_no_image_at_all_is_one_line(table: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match="make docker-build"):
        provider(table, FakeDaemon()).releases()


def test_images_of_the_user_s_own_go_by_their_pattern(table: Path) -> None:
    own = FakeImage("registry/torch-2.9.0:gpu")
    daemon = FakeDaemon(own, image("2.10.0"))
    mine = provider(table, daemon, options={"image": "registry/torch-{version}:gpu"})
    assert [release.version for release in mine.releases()] == ["2.9.0"]
    assert mine.spec("2.9.0").image == f"registry/torch-2.9.0:gpu@{own.id}"
    with pytest.raises(EnvironmentUnavailable, match="pull or build it"):
        mine.make(mine.spec("2.1.0"))


def test_a_pattern_without_a_version_is_refused(table: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"must hold \{version\}"):
        provider(table, FakeDaemon(), options={"image": "torch"}).spec("2.1.0")


# -- making --------------------------------------------------------------------------------------


def test_an_image_that_is_there_is_used_and_told_of(table: Path) -> None:
    wheels = json.dumps({CPU: sha256(CPU)})
    recipe = read_table(table)[0].recipe
    daemon = FakeDaemon(image(**{WHEELS: wheels, RECIPE_KEY: recipe, SLIM: "no"}))
    docked = provider(table, daemon)
    made = docked.make(docked.spec("2.1.0"))
    assert (made.python, made.cached, made.size_bytes) == ("/opt/torch/bin/python", True, 1000)
    assert made.provenance["wheels"] == {CPU: sha256(CPU)}
    assert made.provenance["id"] == image().id
    assert made.provenance["packages"] == {"numpy": "2.0.0"}
    assert "note" not in made.provenance
    assert daemon.builds == []


def test_an_image_of_an_older_row_is_told_apart(table: Path) -> None:
    daemon = FakeDaemon(image(**{RECIPE_KEY: "older"}))
    docked = provider(table, daemon)
    assert "older row" in docked.make(docked.spec("2.1.0")).provenance["note"]


def test_a_missing_image_names_the_make_target(table: Path) -> None:
    docked = provider(table, FakeDaemon())
    with pytest.raises(EnvironmentUnavailable, match=r"make docker-build TORCH=2\.1\.0"):
        docked.make(docked.spec("2.1.0"))
    with pytest.raises(EnvironmentUnavailable, match="no row"):
        docked.make(docked.spec("2.7.0"))


def test_an_image_that_holds_another_torch_is_refused(table: Path, asked: dict[str, Any]) -> None:
    asked["torch"] = "2.2.0"
    docked = provider(table, FakeDaemon(image()))
    with pytest.raises(EnvironmentUnavailable, match=r"holds torch 2\.2\.0, not 2\.1\.0"):
        docked.make(docked.spec("2.1.0"))


def test_the_key_follows_the_image(table: Path) -> None:
    daemon = FakeDaemon(image())
    before = provider(table, daemon).spec("2.1.0")
    assert provider(table, daemon).spec("2.1.0").key == before.key
    assert provider(table, daemon).make(before).spec.key == before.key
    daemon.there["accel-lab-torch:2.1.0"].id = "sha256:another"
    assert provider(table, daemon).spec("2.1.0").key != before.key


def context_of(daemon: FakeDaemon) -> dict[str, Any]:
    """What the next build is given: files by name, requirements, build arguments, labels."""
    seen: dict[str, Any] = {}

    def look(path: Path, asked: dict[str, Any]) -> None:
        seen.update(asked)
        for name in ("wheels", "stubs"):
            seen[name] = sorted(file.name for file in (path / name).glob("*"))
        requirements = path / "requirements.txt"
        seen["requirements"] = requirements.read_text() if requirements.exists() else ""
        seen["dockerfile"] = (path / "Dockerfile").read_text()

    daemon.on_build = look
    return seen


def test_a_build_is_made_of_the_files_of_its_row_and_nothing_else(table: Path) -> None:
    daemon, pip = FakeDaemon(), Pip(CPU, CUDA, NUMPY)
    seen = context_of(daemon)
    docked = provider(table, daemon, pip, build=True)
    made = docked.make(docked.spec("2.1.0"))
    assert seen["wheels"] == sorted([CPU, NUMPY])  # of torch the first that can be had
    assert seen["requirements"].splitlines() == [
        f"torch==2.1.0+cpu --hash=sha256:{sha256(CPU)}",
        f"numpy==2.0.0 --hash=sha256:{sha256(NUMPY)}",
    ]
    assert seen["buildargs"] == {"BASE": "python:3.11-slim@sha256:00"}
    assert seen["labels"][TORCH] == "2.1.0"
    assert json.loads(seen["labels"][WHEELS]) == {CPU: sha256(CPU), NUMPY: sha256(NUMPY)}
    assert seen["stubs"] == []
    assert (made.cached, made.spec.slim) == (False, False)
    assert all("--require-hashes" in call and "--no-deps" in call for call in pip.calls)


def test_a_file_is_fetched_once_for_all_builds(table: Path) -> None:
    pip = Pip(CPU, NUMPY)
    for _ in range(2):
        docked = provider(table, FakeDaemon(), pip, build=True)
        docked.make(docked.spec("2.1.0"))
    assert len(pip.calls) == 2


def test_a_file_that_changed_on_the_shelf_is_not_used(table: Path) -> None:
    docked = provider(table, FakeDaemon(), Pip(CPU, NUMPY), build=True)
    docked.make(docked.spec("2.1.0"))
    kept = next((table.parent / "store" / "wheels").rglob(NUMPY))
    kept.write_bytes(b"another")
    again = provider(table, FakeDaemon(), Pip(CPU, NUMPY), build=True)
    with pytest.raises(EnvironmentUnavailable, match="had changed"):
        again.make(again.spec("2.1.0"))
    assert not kept.exists()


def test_a_build_without_a_wheel_for_the_cpu_gets_stubs(
    table: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    asked["torch"] = "2.1.0"
    daemon = FakeDaemon()
    seen = context_of(daemon)

    class Made:
        libraries = ("libcudart.so.12",)

    def add(site: Path, commands: Any) -> Made:
        (site / "torch" / "lib" / "libcudart.so.12").write_text("stub")
        return Made()

    monkeypatch.setattr(docker_wheels, "add_stubs", add)
    docked = provider(table, daemon, Pip(CUDA, NUMPY), build=True)
    made = docked.make(docked.spec("2.1.0"))
    assert seen["wheels"] == sorted([CUDA, NUMPY])
    assert seen["stubs"] == ["libcudart.so.12"]
    assert made.spec.slim
    assert "stubs" in made.provenance["slim"]


def test_a_wheel_that_cannot_be_had_is_one_line(table: Path) -> None:
    docked = provider(table, FakeDaemon(), Pip(NUMPY), build=True)
    with pytest.raises(
        EnvironmentUnavailable, match=r"torch 2\.1\.0 is not available: .*No matching"
    ) as raised:
        docked.make(docked.spec("2.1.0"))
    assert "\n" not in str(raised.value)


def test_the_base_is_what_was_named_then_what_was_made_here(table: Path) -> None:
    daemon = FakeDaemon(FakeImage(OWN_BASE))
    seen = context_of(daemon)
    docked = provider(table, daemon, Pip(CPU, NUMPY), build=True)
    docked.make(docked.spec("2.1.0"))
    assert seen["buildargs"] == {"BASE": OWN_BASE}
    docked = provider(table, daemon, Pip(CPU, NUMPY), again=True, base="mine:1")
    docked.make(docked.spec("2.1.0"))
    assert seen["buildargs"] == {"BASE": "mine:1"}


def test_a_failed_build_says_what_the_step_said(table: Path) -> None:
    daemon = FakeDaemon()

    def fail(path: Path, asked: dict[str, Any]) -> None:
        log = [{"stream": "Step 3/9 : RUN x\n"}, {"stream": "ERROR: no room\n"}, {"stream": "\n"}]
        raise docker.errors.BuildError("returned a non-zero code: 1", log)

    daemon.on_build = fail
    docked = provider(table, daemon, Pip(CPU, NUMPY), build=True)
    with pytest.raises(EnvironmentUnavailable, match="ERROR: no room") as raised:
        docked.make(docked.spec("2.1.0"))
    assert "\n" not in str(raised.value)
    assert "accel-lab-torch:2.1.0" not in daemon.there


# -- companions ----------------------------------------------------------------------------------


def test_a_pinned_companion_is_another_image_on_top_of_the_build(table: Path, asked: dict[str, Any]) -> None:
    older = NUMPY.replace("2.0.0", "1.26.4")
    wheels = json.dumps({CPU: sha256(CPU), NUMPY: sha256(NUMPY)})
    daemon = FakeDaemon(image(**{WHEELS: wheels}))
    seen = context_of(daemon)
    docked = provider(table, daemon, Pip(older), build=True)
    spec = docked.spec("2.1.0", pins=[("numpy", "1.26.4")])
    made = docked.make(spec)
    assert spec.key != docked.spec("2.1.0").key
    assert spec.image.startswith("accel-lab-torch:2.1.0-")
    assert seen["buildargs"] == {"BUILD": "accel-lab-torch:2.1.0"}
    assert seen["wheels"] == [older]
    assert set(made.provenance["wheels"]) == {CPU, older}
    assert docked.make(spec).cached


def test_what_the_script_needs_goes_on_top_and_torch_stays(table: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text('# /// script\n# dependencies = ["einops==0.8.0"]\n# ///\n')
    einops = "einops-0.8.0-py3-none-any.whl"
    wheels = json.dumps({CPU: sha256(CPU), NUMPY: sha256(NUMPY)})
    daemon, pip = FakeDaemon(image(**{WHEELS: wheels})), Pip(einops)
    seen = context_of(daemon)
    docked = provider(table, daemon, pip, build=True, options={"script": script})
    made = docked.make(docked.spec("2.1.0"))
    assert made.spec.packages == ("einops==0.8.0",)
    assert seen["wheels"] == [einops]
    assert set(made.provenance["wheels"]) == {CPU, NUMPY, einops}


def test_companions_go_on_top_unasked_and_a_whole_build_does_not(table: Path) -> None:
    """A swap at a flip needs a few wheels; a build that is missing needs gigabytes."""
    older = NUMPY.replace("2.0.0", "1.26.4")
    pins = [("numpy", "1.26.4")]
    docked = provider(table, FakeDaemon(image()), Pip(older))
    assert not docked.make(docked.spec("2.1.0", pins=pins)).cached
    without = provider(table, FakeDaemon(), Pip(older))
    with pytest.raises(EnvironmentUnavailable, match="make docker-build TORCH"):
        without.make(without.spec("2.1.0", pins=pins))


def test_nothing_goes_on_top_of_an_image_of_the_user_s(table: Path) -> None:
    docked = provider(table, FakeDaemon(FakeImage("my/torch:2.1.0")), options={"image": "my/torch:{version}"})
    with pytest.raises(EnvironmentUnavailable, match=r"can put numpy==1\.26\.4"):
        docked.make(docked.spec("2.1.0", pins=[("numpy", "1.26.4")]))


def test_what_is_built_anew_takes_the_place_of_what_was_there(table: Path) -> None:
    daemon = FakeDaemon(image())
    old = daemon.there["accel-lab-torch:2.1.0"].id
    docked = provider(table, daemon, Pip(CPU, NUMPY), again=True)
    docked.make(docked.spec("2.1.0"))
    assert [found.id for found in daemon.there.values() if found.id == old] == []


def test_what_is_built_anew_leaves_what_is_in_use(table: Path) -> None:
    daemon = FakeDaemon(image())
    first = provider(table, daemon)
    old = first.make(first.spec("2.1.0")).provenance["id"]
    again = provider(table, daemon, Pip(CPU, NUMPY), again=True)
    again.make(again.spec("2.1.0"))
    assert [found.tags for found in daemon.there.values() if found.id == old] == [[]]


# -- while it is used ----------------------------------------------------------------------------


def test_an_image_is_held_as_long_as_the_provider_is_open(table: Path) -> None:
    store, daemon = table.parent / "store", FakeDaemon(image(**{TORCH: "2.1.0"}))
    docked = provider(table, daemon)
    key = docked.make(docked.spec("2.1.0")).provenance["id"]
    assert not use_lock(store, key).take()
    shelf = ImageShelf(store, connect=daemon.connect)
    (entry,) = shelf.entries()
    assert entry.in_use and entry.used is not None
    assert not shelf.try_remove(entry.key)
    docked.close()
    assert shelf.try_remove(entry.key) and daemon.there == {}
    assert use_lock(store, key).take()


def test_an_image_that_is_removed_meanwhile_is_unavailable(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = FakeDaemon(image())
    docked = provider(table, daemon)
    monkeypatch.setattr(docker_provider, "CHECK_TIMEOUT_S", 0.0)
    spec = docked.spec("2.1.0")
    with use_lock(table.parent / "store", image().id) as lock:
        assert lock.take()
        with pytest.raises(EnvironmentUnavailable, match="is being removed by another lab"):
            docked.make(spec)
    monkeypatch.setattr(docker_provider, "note_use", lambda store, key: daemon.there.clear())
    with pytest.raises(EnvironmentUnavailable, match="was removed meanwhile"):
        docked.make(spec)


# -- running -------------------------------------------------------------------------------------


def test_a_runner_shows_the_child_the_user_s_folder_and_the_script(table: Path, tmp_path: Path) -> None:
    class Place:
        root = tmp_path / "run"
        library = tmp_path / "run" / "lib" / "accel_lab_child"
        user_cwd = tmp_path / "user"

    script = tmp_path / "scripts" / "x.py"
    for folder in (Place.library, Place.user_cwd, script.parent, Place.root / "p" / "cwd"):
        folder.mkdir(parents=True)
    script.touch()
    daemon = FakeDaemon(image())
    docked = provider(table, daemon, options={"script": script})
    environment: Environment = docked.make(docked.spec("2.1.0"))
    runner = docked.runner(environment, Place())
    output = Place.root / "p" / "stdout.txt"
    runner(
        [environment.python, "x"],
        cwd=output.parent / "cwd",
        env={},
        stdout=output,
        stderr=output,
        limits=Limits(),
        marker="m",
    )
    assert daemon.last.image == environment.provenance["id"]
    targets = {mount["Target"] for mount in daemon.last.settings["mounts"]}
    assert {str(Place.library.parent), str(Place.user_cwd), str(script.parent), str(output.parent)} <= targets
