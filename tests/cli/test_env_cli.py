from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from accel_lab.cli.commands import env_command
from accel_lab.cli.commands.env_command import command
from accel_lab.cli.environment_options import environment_options, read_options
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.machine.places import environments_folder
from accel_lab.environments import local
from accel_lab.environments.local import LocalProvider
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.store import quick_check
from accel_lab.environments.store.folder import Store
from accel_lab.environments.uv import provider as uv
from accel_lab.execution.processes import process
from fakes_env import FakeRun, wheel_name

OPTIONS = click.command(environment_options(lambda: None)).params
NOTHING: dict[str, Any] = dict.fromkeys(str(option.name) for option in OPTIONS) | {
    "extra_index_url": (),
    "find_links": (),
    "with_packages": (),
    "with_requirements": (),
    "pre": False,
    "full": False,
    "slim": False,
}


def call(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False, standalone_mode=False)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("2.1.0", "2.13.0+cpu"):
        (folder / wheel_name(version, machine="any")).touch()
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """uv and its interpreters are played; this machine has no GPU."""
    made = FakeRun()
    monkeypatch.setattr(env_command.process, "run", made)
    monkeypatch.setattr(uv, "find_interpreters", lambda: {"3.11": "/py/3.11"})
    monkeypatch.setattr(uv, "has_gpu", lambda: False)
    return made


# -- options ---------------------------------------------------------------------------------------------


def test_an_option_goes_before_the_configuration_and_that_before_pips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://pip/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://pip-more/simple")
    monkeypatch.setenv("PIP_CERT", "/pip.pem")
    (tmp_path / "accel-lab.toml").write_text(
        "index-url = 'https://file/simple'\ncert = '/file.pem'\nwith = ['einops']\n"
        "slim = 'no'\nstore = 'kept'\n"
    )
    name, options = read_options({**NOTHING, "index_url": "https://option/simple"}, folder=tmp_path)
    assert name == "uv"
    assert options.index.url == "https://option/simple"
    assert options.index.extra_urls == ("https://pip-more/simple",)
    assert options.index.ca_bundle == "/file.pem"
    assert (options.with_packages, options.slim, options.folder) == (("einops",), "no", tmp_path / "kept")
    (tmp_path / "accel-lab.toml").unlink()
    _, options = read_options(NOTHING, folder=tmp_path)
    assert (options.index.url, options.index.ca_bundle) == ("https://pip/simple", "/pip.pem")
    assert options.folder == environments_folder()


@pytest.mark.parametrize(
    ("words", "settings", "provider"),
    [
        ({}, "", "uv"),
        ({"pythons": "/a:/b"}, "", "local"),
        ({"pythons": "/a:/b"}, "provider = 'uv'", "local"),
        ({}, "pythons = ['a']", "local"),
        ({}, "provider = 'docker'", "docker"),
        ({"provider": "uv"}, "provider = 'docker'", "uv"),
    ],
)
def test_the_provider_is_chosen(tmp_path: Path, words: dict[str, Any], settings: str, provider: str) -> None:
    (tmp_path / "accel-lab.toml").write_text(settings)
    assert read_options({**NOTHING, **words}, folder=tmp_path)[0] == provider


@pytest.mark.parametrize(
    ("words", "settings", "says"),
    [
        ({"full": True, "slim": True}, "", "contradict"),
        ({"python_version": "three"}, "", "--python-version takes a version"),
        ({}, "provider = 'conda'", "there is no provider 'conda'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, words: dict[str, Any], settings: str, says: str
) -> None:
    (tmp_path / "accel-lab.toml").write_text(settings)
    with pytest.raises(UsageError, match=says):
        read_options({**NOTHING, **words}, folder=tmp_path)


# -- the commands ----------------------------------------------------------------------------------------


def build(wheels: Path, store: Path, *more: str) -> Result:
    place = ("--index-url", "none", "--find-links", str(wheels), "--store", str(store))
    return call("build", *more, *place, "--full", "--json")


def test_environments_are_built_listed_verified_and_pruned(
    run: FakeRun, wheels: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    made = build(wheels, store, "2.1..2.13")
    assert made.return_value == 0
    rows = json.loads(made.stdout)["environments"]
    assert [(row["torch"], row["spec"]["torch"], row["cached"]) for row in rows] == [
        ("2.1.0", "2.1.0", False),
        ("2.13.0", "2.13.0+cpu", False),
    ]
    assert "[2/2] torch 2.13.0" in made.stderr
    listed = json.loads(call("list", "--store", str(store), "--json").stdout)
    assert {row["torch"] for row in listed["environments"]} == {"2.1.0", "2.13.0+cpu"}
    assert not any(row["in_use"] for row in listed["environments"])
    assert listed["bytes"] >= sum(row["own_bytes"] for row in listed["environments"]) > 0
    assert "2.13.0+cpu" in call("list", "--store", str(store)).stdout
    assert call("verify", "--store", str(store)).return_value == 0
    key = rows[0]["spec"]["key"]
    pruned = call("prune", key[:6], "--store", str(store))
    assert f"removed {key}" in pruned.stdout
    assert [entry.key for entry in Store(store).entries()] == [rows[1]["spec"]["key"]]
    assert json.loads(build(wheels, store, "2.13.0").stdout)["environments"][0]["cached"]


def test_an_environment_is_built_for_a_script(run: FakeRun, wheels: Path, tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    script.write_text("# /// script\n# dependencies = ['einops']\n# ///\n")
    (row,) = json.loads(build(wheels, tmp_path / "store", "2.13.0", "--for", str(script)).stdout)[
        "environments"
    ]
    assert row["spec"]["packages"] == ["einops"]
    with pytest.raises(UsageError, match="does not exist"):
        build(wheels, tmp_path / "store", "2.13.0", "--for", str(tmp_path / "none.py"))


def test_one_release_that_cannot_be_had_does_not_stop_the_others(
    run: FakeRun, wheels: Path, tmp_path: Path
) -> None:
    def fail_first(step: str) -> None:
        if step == "install" and run.steps.count("install") == 1:
            run.errors["install"] = "error: No space left on device"
        else:
            run.errors.clear()

    run.during = fail_first
    made = build(wheels, tmp_path / "store", "all")
    assert made.return_value == 3
    first, second = json.loads(made.stdout)["environments"]
    assert "no room on the disk" in first["error"]
    assert second["spec"]["torch"] == "2.13.0+cpu"


def test_verify_says_what_is_damaged_and_removes_it(run: FakeRun, wheels: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    (row,) = json.loads(build(wheels, store, "2.13.0").stdout)["environments"]
    packages = Path(row["folder"]) / "venv" / "lib" / "python3.11" / "site-packages"
    init = packages / "torch" / "__init__.py"
    digest = base64.urlsafe_b64encode(hashlib.sha256(init.read_bytes()).digest()).rstrip(b"=").decode()
    record = packages / "torch-2.13.0+cpu.dist-info" / "RECORD"
    record.write_text(f"torch/__init__.py,sha256={digest},1\ntorch/x.pyc,sha256=aa,1\n../bin/x,sha256=aa,1\n")
    assert call("verify", "--store", str(store)).return_value == 0
    times = init.stat()
    init.write_text("x" * times.st_size)
    os.utime(init, ns=(times.st_atime_ns, times.st_mtime_ns))  # not to be seen by size and time
    said = call("verify", "--store", str(store), "--json")
    assert said.return_value == 3
    assert "are not what their wheels hold: torch/__init__.py" in json.loads(said.stdout)[0]["faults"][0]
    init.unlink()
    run.torch_says = "9.9"
    said = call("verify", "--store", str(store), "--remove")
    assert "files changed or gone" in said.stdout
    assert "it holds torch 9.9" in said.stdout
    assert Store(store).entries() == []


def test_prune_by_age_and_by_size_and_by_all(run: FakeRun, wheels: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rows = json.loads(build(wheels, store, "all").stdout)["environments"]
    old = time.time() - 40 * 86400
    os.utime(Path(rows[0]["folder"]) / "last-used", (old, old))
    assert "would remove" in call("prune", "--older-than", "30", "--dry-run", "--store", str(store)).stdout
    assert len(Store(store).entries()) == 2
    assert "not used for 40 days" in call("prune", "--older-than", "30", "--store", str(store)).stdout
    assert call("prune", "--max-size", "1G", "--store", str(store)).stdout.startswith("0 MB freed")
    said = json.loads(call("prune", "--max-size", "1k", "--store", str(store), "--json").stdout)
    assert said["environments"][0]["why"] == "the store is over its size"
    assert said["freed_bytes"] > 0
    build(wheels, store, "all")
    call("prune", "--all", "--store", str(store))
    assert Store(store).entries() == []
    assert "no environments" in call("list", "--store", str(store)).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("prune", "zz"), "zz is not a kept environment"),
        (("prune", "--max-size", "much"), "'much' is not a size"),
        (("verify", "zz"), "zz is not a kept environment"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call(*words, "--store", str(tmp_path))


# -- the local line --------------------------------------------------------------------------------------


class FakeLine:
    """Interpreters that say which torch they have, empty for none."""

    def __init__(self, **torch: str) -> None:
        self.torch = torch

    def ask(self, commands: object, python: str, **_: object) -> dict[str, Any]:
        version = self.torch[Path(python).name]
        if not version:
            raise EnvironmentUnavailable(f"torch does not work in {python}: it is not installed")
        return {"python": "3.11.7", "torch": version, "packages": {"torch": version}, "prefix": "/p"}


def local_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **torch: str
) -> tuple[LocalProvider, FakeLine]:
    for name in torch:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    line = FakeLine(**torch)
    monkeypatch.setattr(local, "ask_interpreter", line.ask)
    pythons = tuple(str(tmp_path / name) for name in torch)
    return LocalProvider(EnvironmentOptions(pythons=pythons), process.run), line


def test_a_local_line_is_what_the_interpreters_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, line = local_line(monkeypatch, tmp_path, b="2.14.1", a="2.13.0+cpu", c="", d="2.14.1")
    assert [release.version for release in made.releases()] == ["2.13.0", "2.14.1"]
    assert made.notes[0].startswith("torch does not work in")
    assert made.notes[1].endswith("has torch 2.14.1 too: it is left out")
    spec = made.spec("2.13.0")
    assert (spec.torch, spec.python) == ("2.13.0+cpu", str(tmp_path / "a"))
    assert made.make(spec).provenance["packages"] == {"torch": "2.13.0+cpu"}
    line.torch["a"] = "2.13.1"
    with pytest.raises(EnvironmentUnavailable, match=r"has torch 2.13.1 now, not 2.13.0\+cpu"):
        made.make(spec)
    with pytest.raises(EnvironmentUnavailable, match="none of the interpreters"):
        made.spec("2.9.0")
    with pytest.raises(EnvironmentUnavailable, match="holds none"):
        made.spec("2.13.0", pins=(("numpy", "1"),))


def test_two_builds_of_one_release_keep_their_full_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, _ = local_line(monkeypatch, tmp_path, a="2.13.0+cpu", b="2.13.0+cu130")
    assert [release.version for release in made.releases()] == ["2.13.0+cpu", "2.13.0+cu130"]


def test_no_interpreter_that_works_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, _ = local_line(monkeypatch, tmp_path, a="")
    with pytest.raises(EnvironmentUnavailable, match="torch does not work"):
        made.releases()
    with pytest.raises(UsageError, match="is not an interpreter"):
        LocalProvider(EnvironmentOptions(pythons=("/no/such/python",)), process.run)


def test_an_interpreter_is_asked_and_what_it_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from accel_lab.environments.commands import Commands

    commands = Commands(process.run, 60.0)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('broken')\n")
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.9.1+cpu'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    facts = quick_check.ask_interpreter(commands, sys.executable, isolated=False)
    assert facts["torch"] == "2.9.1+cpu"
    with pytest.raises(EnvironmentUnavailable, match="RuntimeError: broken"):
        quick_check.ask_interpreter(commands, sys.executable, full=True, isolated=False)
    (tmp_path / "bad").write_text("#!/bin/sh\necho nonsense >&2\n")
    (tmp_path / "bad").chmod(0o755)
    with pytest.raises(EnvironmentUnavailable, match="does not run as a Python interpreter: nonsense"):
        quick_check.ask_interpreter(commands, str(tmp_path / "bad"))
    with pytest.raises(EnvironmentUnavailable, match="cannot start"):
        quick_check.ask_interpreter(commands, str(tmp_path / "none"))
