from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import EnvironmentUnavailable, Index
from accel_lab.environments.explain import explain
from accel_lab.environments.index import choosing
from accel_lab.environments.index.reader import Listing
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.providers import NAMES, provider
from accel_lab.environments.store.folder import Store, changed_files
from accel_lab.environments.uv import provider as uv_module
from accel_lab.environments.uv.provider import UvProvider
from accel_lab.environments.uv.slim import Stubs
from accel_lab.environments.uv.tool import read_lock
from fakes_env import MACHINE, FakeRun, wheel, wheel_name


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of the line's kind, whatever runs the tests: its wheels, two Pythons, a C compiler."""
    monkeypatch.setattr("accel_lab.environments.index.releases.platform.machine", lambda: "x86_64")
    monkeypatch.setattr("accel_lab.environments.index.releases.fits.__defaults__", ("linux", "x86_64"))
    monkeypatch.setattr(uv_module, "find_interpreters", lambda: {"3.11": "/py/3.11", "3.8": "/py/3.8"})
    monkeypatch.setattr(choosing, "find_compiler", lambda: "/usr/bin/gcc")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("2.0.0", "2.1.0", "2.2.0", "2.13.0+cpu", "2.14.0rc1"):
        (folder / wheel_name(version)).touch()
    (folder / wheel_name("2.0.1", "cp38")).touch()
    (folder / wheel_name("2.0.0", "cp38")).touch()
    return folder


@pytest.fixture
def options(tmp_path: Path, wheels: Path) -> EnvironmentOptions:
    return EnvironmentOptions(index=Index(url="none", find_links=(str(wheels),)), folder=tmp_path / "store")


@pytest.fixture
def run() -> FakeRun:
    return FakeRun()


@pytest.fixture
def maker(options: EnvironmentOptions, run: FakeRun) -> Iterator[UvProvider]:
    with UvProvider(options, run, gpu=False) as made:
        yield made


def changed(options: EnvironmentOptions, **more: Any) -> EnvironmentOptions:
    return EnvironmentOptions(**{**options.__dict__, **more})


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "envs").glob(".*"))


# -- what there is ---------------------------------------------------------------------------------------


def test_the_line_is_what_a_python_here_can_run(maker: UvProvider) -> None:
    found = [release.version for release in maker.releases()]
    assert found == ["2.0.0", "2.0.1", "2.1.0", "2.2.0", "2.13.0"]
    assert [r.version for r in maker.releases(pre=True)][-1] == "2.14.0rc1"


def test_one_python_for_the_line_and_another_where_it_must_be(
    maker: UvProvider, options: EnvironmentOptions, run: FakeRun
) -> None:
    assert maker.spec("2.1.0").python == "3.11"
    assert maker.spec("2.0.1").python == "3.8"
    assert maker.spec("2.0.0").python == "3.8"  # its wheel for 3.11 does not compile there
    named = UvProvider(changed(options, python="3.11"), run, gpu=False)
    assert named.spec("2.0.0").python == "3.11"
    assert [r.version for r in named.releases()] == ["2.0.0", "2.1.0", "2.2.0", "2.13.0"]
    with pytest.raises(
        EnvironmentUnavailable, match=r"torch 2.0.1 has no wheel for Python 3.11 \(only for 3.8\)"
    ):
        named.spec("2.0.1")


@pytest.mark.parametrize(("own", "line"), [("3.12", "3.12"), ("3.13", "3.10"), ("3.9", "3.10")])
def test_the_labs_own_python_serves_unless_another_serves_many_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: FakeRun, own: str, line: str
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for version in ("2.0.0", "2.4.0", "2.5.0", "2.6.0"):
        for python in ("cp310", "cp312", "cp313"):
            (folder / wheel_name(version, python)).touch()
    interpreters = {own: "/py/own", "3.10": "/py/3.10"}
    monkeypatch.setattr(uv_module, "find_interpreters", lambda: interpreters)
    options = EnvironmentOptions(
        index=Index(url="none", find_links=(str(folder),)), folder=tmp_path / "store"
    )
    maker = UvProvider(options, run, gpu=False)
    assert maker.spec("2.6.0").python == line
    assert maker.spec("2.0.0").python == "3.10"


def test_a_spec_names_the_exact_wheel_and_the_script_needs(options: EnvironmentOptions, run: FakeRun) -> None:
    made = UvProvider(changed(options, with_packages=("einops", "torch==2.1")), run, gpu=False)
    spec = made.spec("2.13.0", pins=(("numpy", "1.26.4"),))
    assert (spec.torch, spec.packages, spec.pins) == ("2.13.0+cpu", ("einops",), (("numpy", "1.26.4"),))
    assert "the line of releases sets torch" in made.notes[0]
    assert made.spec("2.13.0").key != spec.key
    with pytest.raises(EnvironmentUnavailable, match=r"the index has no torch 2.9.9"):
        made.spec("2.9.9")


@pytest.mark.parametrize(
    ("version", "asked", "gpu", "slim"),
    [
        ("2.1.0", "auto", False, True),
        ("2.1.0", "auto", True, False),
        ("2.1.0", "no", False, False),
        ("2.1.0", "yes", True, True),
        ("2.13.0", "auto", False, False),  # a build for the CPU is there
    ],
)
def test_slim_is_chosen_where_no_gpu_is_and_no_cpu_build(
    options: EnvironmentOptions, run: FakeRun, version: str, asked: str, gpu: bool, slim: bool
) -> None:
    assert UvProvider(changed(options, slim=asked), run, gpu=gpu).spec(version).slim is slim


def test_no_index_and_no_folder_is_said(tmp_path: Path, run: FakeRun) -> None:
    index = Index(url="none", find_links=(str(tmp_path / "gone"),))
    made = UvProvider(EnvironmentOptions(index=index, folder=tmp_path), run)
    with pytest.raises(
        EnvironmentUnavailable, match=r"no release of torch is known: find-links .* is not there"
    ):
        made.releases()


# -- making ----------------------------------------------------------------------------------------------


def test_an_environment_is_made_once_and_found_again(
    maker: UvProvider, options: EnvironmentOptions, run: FakeRun
) -> None:
    made = maker.make(maker.spec("2.13.0"))
    assert not made.cached
    assert Path(made.python).is_file()
    assert made.provenance["torch"] == "2.13.0+cpu"
    assert made.provenance["lock"] == ["numpy==1.26.2", "sympy==1.12", "torch==2.13.0+cpu"]
    assert {row["name"] for row in made.provenance["wheels"]} == {"numpy", "sympy", "torch"}
    assert made.provenance["wheels"][0]["source"] == "http://index.example/simple"
    assert "slim" not in made.provenance
    assert run.steps == ["venv", "compile", "install", "python", "python"]
    assert maker.make(maker.spec("2.13.0")).cached
    with UvProvider(options, run, gpu=False) as other:
        again = other.make(other.spec("2.13.0"))
    assert (again.cached, again.seconds, again.python) == (True, 0.0, made.python)
    assert again.provenance == made.provenance
    assert again.size_bytes == made.size_bytes > 0
    assert run.steps.count("venv") == 1
    assert left_over(options.folder) == []


def test_uv_is_told_where_to_look_and_when_to_stop(
    options: EnvironmentOptions, run: FakeRun, monkeypatch: pytest.MonkeyPatch, wheels: Path
) -> None:
    for name, value in {
        "UV_INDEX_URL": "x",
        "UV_OFFLINE": "1",
        "VIRTUAL_ENV": "x",
        "PYTHONPATH": "x",
    }.items():
        monkeypatch.setenv(name, value)
    index = Index(
        url="https://main/simple",
        extra_urls=("https://more/simple",),
        find_links=(os.path.relpath(wheels),),
        ca_bundle="/ca.pem",
    )
    kept = changed(options, index=index, with_packages=("einops==0.7",))
    monkeypatch.setattr(choosing, "list_wheels", lambda *_, **__: dated_listing())
    with UvProvider(kept, run, gpu=True) as maker:
        maker.make(maker.spec("2.1.0", pins=(("numpy", "1.25.0"),)))
    words = run.words_of("compile")
    assert words[words.index("--default-index") + 1] == "https://main/simple"
    assert words[words.index("--index") + 1] == "https://more/simple"
    assert words[words.index("--find-links") + 1] == str(wheels)  # uv runs in another folder
    assert words[words.index("--exclude-newer") + 1] == "2023-10-11"
    exempt = {words[n + 1] for n, word in enumerate(words) if word == "--exclude-newer-package"}
    assert exempt == {"torch=false", "einops=false", "numpy=false"}
    assert "--no-config" in words
    env = run.environments[1]
    assert env["SSL_CERT_FILE"] == "/ca.pem"
    assert env["UV_OFFLINE"] == "1"
    assert {"UV_INDEX_URL", "VIRTUAL_ENV", "PYTHONPATH"}.isdisjoint(env)
    install = run.words_of("install")
    assert {"--no-deps", "--compile-bytecode", "hardlink"} <= set(install)
    assert "--exclude-newer" not in install  # the lock says it all, so an index without dates may serve it


def dated_listing() -> Any:
    return Listing(wheels=[wheel("2.1.0", uploaded="2023-10-04T10:00:00Z", source="https://main/simple")])


def test_the_era_is_given_up_where_the_index_has_no_dates(
    options: EnvironmentOptions, run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "list_wheels", lambda *_, **__: dated_listing())
    run.undated.add("all")
    with UvProvider(options, run, gpu=True) as maker:
        made = maker.make(maker.spec("2.1.0"))
    assert run.steps.count("compile") == 2
    assert made.provenance["era"] == ""
    assert "no upload times" in made.provenance["notes"][-1]


def test_a_slim_install_leaves_out_what_is_for_the_gpu(
    options: EnvironmentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FakeRun(["numpy==1.26.2", "nvidia-cublas-cu12==12.1", "cuda-bindings==13.4", "triton==2.1.0"])
    stubbed: list[Path] = []

    def add_stubs(folder: Path, _: object) -> Any:
        stubbed.append(folder)
        return Stubs(libraries=("libcublas.so.12",), symbols=7, size_bytes=1)

    monkeypatch.setattr(uv_module, "add_stubs", add_stubs)
    with UvProvider(options, run, gpu=False) as maker:
        made = maker.make(maker.spec("2.1.0"))
    assert made.provenance["lock"] == ["numpy==1.26.2", "torch==2.1.0"]
    assert made.provenance["slim"] == {
        "left_out": ["nvidia-cublas-cu12==12.1", "cuda-bindings==13.4", "triton==2.1.0"],
        "stubs": ["libcublas.so.12"],
        "symbols": 7,
    }
    assert len(stubbed) == 1
    with UvProvider(changed(options, with_packages=("triton",)), run, gpu=False) as asks:
        assert "triton==2.1.0" in asks.make(asks.spec("2.1.0")).provenance["lock"]
    with UvProvider(changed(options, slim="no"), run, gpu=False) as full:
        assert "slim" not in full.make(full.spec("2.1.0")).provenance


@pytest.mark.parametrize("step", ["venv", "compile", "install", "python"])
def test_a_build_that_fails_half_way_leaves_nothing(
    maker: UvProvider, options: EnvironmentOptions, run: FakeRun, step: str
) -> None:
    run.errors[step] = "error: Failed to write\n  cause: No space left on device (os error 28)"
    with pytest.raises(EnvironmentUnavailable) as refused:
        maker.make(maker.spec("2.13.0"))
    assert "\n" not in str(refused.value)
    if step in ("compile", "install"):
        assert "no room on the disk" in str(refused.value)
    assert Store(options.folder).entries() == []
    assert left_over(options.folder) == []
    tried = len(run.steps)
    with pytest.raises(EnvironmentUnavailable):  # known by now: asked of nobody again
        maker.make(maker.spec("2.13.0"))
    assert len(run.steps) == tried
    run.errors.clear()
    with UvProvider(options, run, gpu=False) as later:
        assert not later.make(later.spec("2.13.0")).cached


def test_ctrl_c_leaves_nothing_either(maker: UvProvider, options: EnvironmentOptions, run: FakeRun) -> None:
    def stop(step: str) -> None:
        if step == "install":
            raise KeyboardInterrupt

    run.during = stop
    with pytest.raises(KeyboardInterrupt):
        maker.make(maker.spec("2.13.0"))
    assert left_over(options.folder) == []
    assert not Store(options.folder).is_used(maker.spec("2.13.0").key)


def test_another_torch_than_asked_is_no_environment(maker: UvProvider, run: FakeRun) -> None:
    run.torch_says = "2.12.0"
    with pytest.raises(EnvironmentUnavailable, match=r"torch 2.12.0 was installed instead of 2.13.0\+cpu"):
        maker.make(maker.spec("2.13.0"))


def test_a_disk_without_room_is_said_before_the_download(
    options: EnvironmentOptions, run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 10})()
    monkeypatch.setattr(uv_module.shutil, "disk_usage", lambda _: usage)
    with (
        UvProvider(options, run, gpu=False) as maker,
        pytest.raises(EnvironmentUnavailable, match="no room for"),
    ):
        maker.make(maker.spec("2.13.0"))
    assert run.steps == []


def test_an_environment_that_was_damaged_is_made_anew(
    maker: UvProvider, options: EnvironmentOptions, run: FakeRun
) -> None:
    made = maker.make(maker.spec("2.13.0"))
    maker.close()
    library = Path(made.python).parent.parent / "lib" / "python3.11" / "site-packages"
    (library / "torch" / "__init__.py").write_text("changed")
    assert changed_files(Path(made.folder)) == [str((library / "torch/__init__.py").relative_to(made.folder))]
    with UvProvider(options, run, gpu=False) as other:
        again = other.make(other.spec("2.13.0"))
    assert not again.cached
    assert changed_files(Path(again.folder)) == []
    (library / "torch" / "__pycache__").mkdir()
    (library / "torch" / "__pycache__" / "new.pyc").touch()
    assert changed_files(Path(again.folder)) == []


def test_an_interpreter_that_no_longer_starts_is_replaced(
    maker: UvProvider, options: EnvironmentOptions, run: FakeRun
) -> None:
    maker.make(maker.spec("2.13.0"))
    maker.close()
    answer, made_before = run._python, run.steps.count("venv")

    def broken_until_made_again(words: Any) -> str:
        return answer(words) if run.steps.count("venv") > made_before else ""

    run._python = broken_until_made_again  # type: ignore[method-assign]
    with UvProvider(options, run, gpu=False) as other:
        assert not other.make(other.spec("2.13.0")).cached


# -- two labs at once ------------------------------------------------------------------------------------


def test_two_labs_make_an_environment_once(options: EnvironmentOptions, run: FakeRun) -> None:
    inside: list[str] = []
    most = [0]

    def during(step: str) -> None:
        if step == "install":
            inside.append(step)
            most[0] = max(most[0], len(inside))
            threading.Event().wait(0.05)
            inside.pop()

    run.during = during
    made: list[Any] = []

    def work() -> None:
        with UvProvider(options, run, gpu=False) as maker:
            made.append(maker.make(maker.spec("2.13.0")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert run.steps.count("install") == 1
    assert sorted(each.cached for each in made) == [False, True, True, True]
    assert len({each.python for each in made}) == 1


# -- words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stderr", "says"),
    [
        ("error: x\n  cause: No space left on device (os error 28)", "no room on the disk"),
        (
            "error: Failed to fetch: https://pypi.example/simple/torch/\n cause: dns error",
            r"no network: .*pypi.exa",
        ),
        (
            "error: x https://h/s\n cause: invalid peer certificate: UnknownIssuer",
            "not trusted .h.: name a CA",
        ),
        (
            "cause: Because idna was not found in the cache and you require idna\n\n"
            "hint: Packages were unavailable because the network was disabled.",
            "no network",
        ),
        ("error: https://h/s: 401 Unauthorized", "refuses access .h.: 401"),
        (
            "\u00d7 No solution found:\n\u2570\u2500\u25b6 Because torch==2.1.0 has no wheels with a "
            "matching Python ABI tag (e.g.,\n"
            "    `cp313`) and you require torch==2.1.0",
            "no wheel of torch 2.1.0 for Python 3.13",
        ),
        ("cause: Because torch==2.1.0 has no wheels with a matching platform tag", "2.1.0 for this machine"),
        (
            "cause: Because there is no version of foo==2.6.99 and you require foo==2.6.99, we can conclude",
            "the index has no foo 2.6.99",
        ),
        ("cause: Because foo was not found in the package registry and you", "the index has no foo"),
        (
            "error: Failed to build `fast==1.0`\n  cause: the compiler said much",
            "fast==1.0 has no wheel here",
        ),
        ("warning: nothing\nerror: odd\n  cause: thing\nhint: do", "^odd: thing$"),
        ("", "without a word"),
    ],
)
def test_an_installers_error_becomes_one_line(stderr: str, says: str) -> None:
    line = explain(stderr, torch="2.1.0", python="3.13")
    assert re.search(says, line)
    assert "\n" not in line
    assert len(line) <= 300


def test_a_lock_is_read_with_its_sources() -> None:
    text = "# by uv\nnumpy==1.26.2\n    # from https://a/simple\nfoo @ file:///x.whl\ntorch==2.1.0+cpu\n"
    lines = read_lock(text)
    assert [(x.name, x.version, x.source) for x in lines] == [
        ("numpy", "1.26.2", "https://a/simple"),
        ("foo", "", ""),
        ("torch", "2.1.0+cpu", ""),
    ]


def test_the_registry_knows_its_names(options: EnvironmentOptions, run: FakeRun) -> None:
    assert NAMES == ("local", "uv", "docker")
    assert provider("uv", options, run).name == "uv"
    with pytest.raises(UsageError, match="there is no provider 'conda'"):
        provider("conda", options, run)
    with pytest.raises(UsageError, match="slim is auto or yes or no"):
        provider("uv", changed(options, slim="maybe"), run)


def test_the_machine_of_the_fakes_is_the_lines() -> None:
    assert MACHINE.endswith("x86_64")
