"""What a container gets to see: little, at its own path, and readable for the user who is inside."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from accel_lab.environments.docker import mounts as docker_mounts
from accel_lab.environments.docker.confinement import HOME, environment
from accel_lab.environments.docker.mounts import NOBODY, User, Views, homes_of, is_wide, shown, user_for

OURSELVES = User(uid=os.getuid(), gid=os.getgid())
STRANGER = User(uid=NOBODY, gid=NOBODY, owns=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def mounts(views: Views, read: list[Path], write: Path) -> dict[str, dict[str, Any]]:
    return {mount["Target"]: mount for mount in views.mounts(read, write)}


@pytest.mark.parametrize(
    ("home", "places", "covered"),
    [
        (
            "/root",
            ["/root/.local/share/accel-lab/runs/x/probes/k", "/root/.local/share/accel-lab/runs/x/lib"],
            ["/root"],
        ),
        ("/root", ["/tmp/x/probes/k"], []),
        ("/root", ["/root"], []),
        ("/home/ada", ["/home/ada/x/probes/k", "/data/script"], ["/home/ada"]),
        ("/home/ada", ["/home/eve/script", "/home/ada/x"], ["/home/eve", "/home/ada"]),
        ("/data/people/ada", ["/data/people/ada/run/k"], ["/data/people/ada"]),
        ("/", ["/srv/run/k"], []),
        ("/tmp", ["/tmp/run/k"], []),
    ],
)
def test_a_home_on_the_way_to_a_mount_is_covered_by_an_open_folder(
    monkeypatch: pytest.MonkeyPatch, home: str, places: list[str], covered: list[str]
) -> None:
    """The image's own may be closed: ``/root`` is 0700."""
    monkeypatch.setenv("HOME", home)
    assert [str(path) for path in homes_of([Path(place) for place in places])] == covered


def test_the_covering_folder_is_open_small_and_never_over_the_interpreter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(docker_mounts.tempfile, "gettempdir", lambda: "/elsewhere")
    write = folder / "run" / "probes" / "k"
    write.mkdir(parents=True)
    before = os.umask(0o077)
    try:
        mount = mounts(Views(folder / "keep", OURSELVES, "/usr/bin/python3"), [], write)[str(folder)]
    finally:
        os.umask(before)
    assert mount["Type"] == "bind"
    assert mount["ReadOnly"]
    source = Path(mount["Source"])
    assert (source / "run" / "probes" / "k").is_dir()  # the mount points are there, and nothing else
    assert sum(len(names) + len(files) for _, names, files in os.walk(source)) == 3
    for place in (source, source / "run", source / "run" / "probes"):
        assert stat.S_IMODE(place.stat().st_mode) == 0o755
    inside = str(folder / ".local" / "bin" / "python3")
    assert str(folder) not in mounts(Views(folder / "keep", OURSELVES, inside), [], write)


@pytest.mark.parametrize("path", ["/", "/tmp", "/home", "/usr", "/home/someone"])
def test_a_part_of_the_system_is_too_wide(path: str) -> None:
    assert is_wide(Path(path))


def test_homes_are_too_wide_and_projects_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/people/ada")
    assert is_wide(Path("/data/people/ada"))
    assert is_wide(Path("/data/people"))
    assert is_wide(Path(tempfile.gettempdir()))
    assert not is_wide(Path("/data/people/ada/project"))
    assert not is_wide(Path("/repro"))


def test_a_script_shows_its_folder(folder: Path) -> None:
    script = folder / "a" / "x.py"
    script.parent.mkdir()
    script.touch()
    assert shown([script]) == [folder / "a"]


def test_a_script_in_too_wide_a_folder_shows_itself_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / "x.py").touch()
    (folder / "secret.txt").touch()
    assert shown([folder / "x.py"]) == [folder / "x.py"]
    assert shown([folder]) == []


def test_both_the_written_path_and_what_it_links_to_are_shown(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real" / "x.py").touch()
    (folder / "links").mkdir()
    (folder / "links" / "x.py").symlink_to(folder / "real" / "x.py")
    assert set(shown([folder / "links" / "x.py"])) == {folder / "links", folder / "real"}


def test_a_folder_inside_another_is_not_shown_twice_and_a_missing_one_not_at_all(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    assert shown([folder / "a" / "b", folder / "a", folder / "none"]) == [folder / "a"]


def test_everything_is_read_only_but_the_run_s_folder(folder: Path) -> None:
    for name in ("script", "run"):
        (folder / name).mkdir()
    found = mounts(Views(folder / "keep", OURSELVES), [folder / "script"], folder / "run")
    assert {target: mount["ReadOnly"] for target, mount in found.items()} == {
        str(folder / "script"): True,
        str(folder / "run"): False,
    }
    assert all(mount["Source"] == target for target, mount in found.items())


def test_the_user_inside_is_never_root_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert user_for([]) == STRANGER
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    monkeypatch.setattr(os, "getgid", lambda: 56)
    assert user_for(["name=seccomp"]) == User(uid=1234, gid=56)
    # A rootless daemon maps its root to the caller, who is none.
    assert user_for(["name=rootless"]).text == "0:0"


class TestStranger:
    """A lab that runs as root lets another user in, who may not read what is root's own."""

    @pytest.fixture(autouse=True)
    def no_chown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that the tests run as any user."""
        self.given: list[Path] = []
        monkeypatch.setattr(docker_mounts, "give", lambda folder, user: self.given.append(folder))

    def test_what_all_may_read_is_shown_itself(self, folder: Path) -> None:
        place = folder / "open"
        place.mkdir(mode=0o755)
        (place / "x.py").write_text("x")
        (place / "x.py").chmod(0o644)
        found = mounts(Views(folder / "keep", STRANGER), [place], folder)
        assert found[str(place)]["Source"] == str(place)

    @pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o700, 0o644), (0o755, 0o600)])
    def test_what_not_all_may_read_is_shown_as_a_copy(
        self, folder: Path, folder_mode: int, file_mode: int
    ) -> None:
        place, run = folder / "own", folder / "run"
        (place / "sub").mkdir(parents=True)
        run.mkdir()
        (place / "sub" / "y.py").write_text("y")
        (place / "x.py").write_text("x")
        (place / "x.py").chmod(file_mode)
        (place / "link").symlink_to("x.py")
        place.chmod(folder_mode)
        found = mounts(Views(folder / "keep", STRANGER), [place], run)
        copy = Path(found[str(place)]["Source"])
        assert copy != place
        assert (copy / "x.py").read_text() == "x"
        assert (copy / "sub" / "y.py").read_text() == "y"
        assert (copy / "link").read_text() == "x"
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (copy, copy / "x.py", copy / "sub")]
        assert modes == [0o755, 0o644, 0o755]
        assert stat.S_IMODE(place.stat().st_mode) == folder_mode  # the user's own stays as it is

    def test_a_single_file_is_copied_too(self, folder: Path) -> None:
        script = folder / "x.py"
        script.write_text("x")
        script.chmod(0o600)
        (folder / "run").mkdir()
        found = mounts(Views(folder / "keep", STRANGER), [script], folder / "run")
        copy = Path(found[str(script)]["Source"])
        assert copy.read_text() == "x"
        assert stat.S_IMODE(copy.stat().st_mode) == 0o644

    def test_a_copy_has_the_places_where_other_folders_are_mounted(self, folder: Path) -> None:
        place = folder / "own"
        run, library = place / "runs" / "1" / "probes" / "k", place / "runs" / "1" / "lib"
        run.mkdir(parents=True)
        library.mkdir()
        place.chmod(0o700)
        found = mounts(Views(place / "runs" / "1" / "docker", STRANGER), [place, library], run)
        copy = Path(found[str(place)]["Source"])
        assert (copy / run.relative_to(place)).is_dir()
        assert (copy / library.relative_to(place)).is_dir()

    def test_a_copy_does_not_hold_itself(self, folder: Path) -> None:
        place = folder / "own"
        (place / "run").mkdir(parents=True)
        place.chmod(0o700)
        views = Views(place / "docker", STRANGER)
        copy = Path(mounts(views, [place], place / "run")[str(place)]["Source"])
        assert not (copy / "docker").exists()

    def test_a_copy_is_made_once_and_has_an_end(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(docker_mounts, "COPY_BYTES", 10)
        place = folder / "own"
        place.mkdir(mode=0o700)
        (place / "a.py").write_text("small")
        (place / "b.bin").write_text("far too large for it")
        (folder / "run").mkdir()
        views = Views(folder / "keep", STRANGER)
        copy = Path(mounts(views, [place], folder / "run")[str(place)]["Source"])
        assert sorted(path.name for path in copy.iterdir()) == ["a.py"]
        assert mounts(views, [place], folder / "run")[str(place)]["Source"] == str(copy)

    def test_the_run_s_folder_is_given_to_the_stranger(self, folder: Path) -> None:
        (folder / "run").mkdir()
        mounts(Views(folder / "keep", STRANGER), [], folder / "run")
        assert self.given == [folder / "run"]


def test_the_environment_inside_is_chosen_by_name() -> None:
    outside = {
        "TORCHINDUCTOR_CACHE_DIR": "/run/cache",
        "TORCH_COMPILE_DEBUG": "1",
        "OMP_NUM_THREADS": "2",
        "CXX": "/bin/false",
        "MOCK_STRICT": "1",
        "PYTHONHASHSEED": "0",
        "HOME": "/home/ada",
        "PATH": "/home/ada/bin",
        "TMPDIR": "/scratch",
        "SSH_AUTH_SOCK": "/run/agent",
        "HF_TOKEN": "hf_x",
        "HTTP_PROXY": "http://proxy",
        "LD_PRELOAD": "/home/ada/x.so",
        "TORCH_HOME": "/home/ada/torch",
        "ACCEL_LAB_HOME": "/home/ada/lab",
        "TORCH_SERVICE_TOKEN": "t",
    }
    inside = environment(outside)
    kept = {name for name in inside if inside[name] == outside.get(name)}
    assert kept == {
        *("TORCHINDUCTOR_CACHE_DIR", "TORCH_COMPILE_DEBUG", "OMP_NUM_THREADS"),
        *("CXX", "MOCK_STRICT", "PYTHONHASHSEED"),
    }
    assert inside["HOME"] == HOME
    assert inside["TMPDIR"] == "/tmp"
    assert not {"PATH", "LD_PRELOAD", "HTTP_PROXY"} & set(inside)
    assert environment(outside, ["HF_TOKEN"])["HF_TOKEN"] == "hf_x"
