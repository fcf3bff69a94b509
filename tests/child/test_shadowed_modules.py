"""Modules beside the script that are called like Python's: plain and recorded runs import the same ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.child import shadowed_modules
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.execution.prober import Prober
from accel_lab.execution.programs import must_run_cold
from accel_lab.execution.run_folder.workspace import Workspace


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("json.py", ["json"]),
        ("json/__init__.py", ["json"]),
        ("json.cpython-311-x86_64-linux-gnu.so", []),
        ("json.abi3.so", ["json"]),
        ("json/notes.txt", []),
        ("json.txt", []),
        ("jsonlines.py", []),
    ],
)
def test_what_takes_the_place_of_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, found: list[str]
) -> None:
    monkeypatch.setattr(shadowed_modules, "_SUFFIXES", (".py", ".pyc", ".abi3.so"))
    (tmp_path / made).parent.mkdir(exist_ok=True)
    (tmp_path / made).touch()
    assert shadowed_modules.shadowed([str(tmp_path / "none"), str(tmp_path)], {"json", "os"}) == found


@pytest.mark.parametrize(
    ("made", "cold"),
    [
        ("json.py", True),
        ("random/__init__.py", True),
        ("random/data.txt", False),
        ("numpy.py", True),
        ("os.py", False),  # imported before Python looks in the folder
        ("time.py", False),  # built in
        ("sqlite3.py", False),  # not imported by torch or the lab
        ("helper.py", False),
    ],
)
def test_such_a_script_is_run_cold_and_the_reason_is_said(tmp_path: Path, made: str, cold: bool) -> None:
    (tmp_path / "script.py").write_text("print(1)\n")
    (tmp_path / made).parent.mkdir(exist_ok=True)
    (tmp_path / made).touch()
    told = must_run_cold(Program(path=str(tmp_path / "script.py")))
    assert bool(told) is cold
    assert (made.partition("/")[0] in told) is cold


def test_modules_on_pythonpath_and_in_the_folder_of_a_module_count_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").touch()
    monkeypatch.chdir(tmp_path)
    assert must_run_cold(Program(module="pytest"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "script.py").write_text("print(1)\n")
    program = Program(path=str(other / "script.py"))
    assert not must_run_cold(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert must_run_cold(program)


USES = """
import code
import random
print(code.MINE, hasattr(random, "MINE"), code.__file__)
import torch
print(torch.compile(lambda t: t + 1, backend="eager")(torch.ones(2)).tolist())
import threading
threading.Timer(0.3, lambda: print("thread ran")).start()
"""


@pytest.mark.torch
def test_plain_and_recorded_runs_import_the_same_modules(torch_python: str, tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "script.py").write_text(USES)
    (user / "code.py").write_text("MINE = 'mine'\n")
    probe = Probe(program=Program(path=str(user / "script.py")), cold=True, limits=Limits(timeout_s=240.0))
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", user)) as prober:
        plain, recorded = prober.ask(replace(probe, bare=True)), prober.ask(probe)
        prober.warm_up()
        warm = prober.ask(replace(probe, cold=False))
    wanted = f"mine False {user / 'code.py'}\n[2.0, 2.0]\nthread ran\n"
    for outcome in (plain, recorded, warm):
        assert outcome.status is Status.OK, outcome.raised
        assert printed(outcome) == wanted
    assert len(recorded.facts["regions"]) == 1 and recorded.facts["regions"][0]["calls"] == 1


@pytest.mark.torch
def test_what_breaks_torch_breaks_it_in_both(torch_python: str, tmp_path: Path) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "script.py").write_text("import torch\n")
    (user / "types.py").write_text("MINE = 1\n")
    probe = Probe(program=Program(path=str(user / "script.py")), cold=True, limits=Limits(timeout_s=240.0))
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", user)) as prober:
        plain, recorded = prober.ask(replace(probe, bare=True)), prober.ask(probe)
    assert plain.raised is not None and recorded.raised is not None
    assert plain.raised.message == recorded.raised.message
    assert "'types'" in plain.raised.message


def printed(outcome: Outcome) -> str:
    return (Path(outcome.folder) / "stdout.txt").read_text()
