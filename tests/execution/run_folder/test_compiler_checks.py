"""What torch found out about the compiler is lent to cold runs, and comes from the warm server alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accel_lab.core.probe import Probe
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober
from accel_lab.execution.programs import read_program
from accel_lab.execution.run_folder import compiler_checks
from accel_lab.execution.run_folder.compiler_checks import CompilerChecks, share_headers
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.execution.warm import build_compiler_checks

SCRIPT = """
import os, tempfile
cache, place = os.environ["TORCHINDUCTOR_CACHE_DIR"], tempfile.gettempdir()
print("lent", sorted(name for _, _, names in os.walk(cache) for name in names))
found = [os.path.join(root, one) for root, folders, _ in os.walk(place) for one in folders]
print("headers", [os.path.realpath(one) for one in found if one.endswith("precompiled_headers")])
open(os.path.join(cache, "from-the-script.so"), "w").close()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def cache_with(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_one_server_built_the_next_run_gets(home: Path, tmp_path: Path) -> None:
    checks = CompilerChecks("/some/python")
    checks.lend(cache_with(tmp_path / "empty"))  # nothing is kept yet, and nothing fails
    checks.keep(cache_with(tmp_path / "server", "ab/x.so", "ab/x.so.load_ok"))
    (tmp_path / "probe").mkdir()
    CompilerChecks("/some/python").lend(tmp_path / "probe")
    assert names_in(tmp_path / "probe") == {"ab/x.so", "ab/x.so.load_ok"}
    (tmp_path / "other").mkdir()
    CompilerChecks("/another/python").lend(tmp_path / "other")
    assert names_in(tmp_path / "other") == set()


def test_a_new_release_adds_to_what_is_kept_until_it_is_too_much(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = CompilerChecks("/some/python")
    checks.keep(cache_with(tmp_path / "1", "a.so"))
    checks.keep(cache_with(tmp_path / "2", "b.so"))
    assert names_in(checks.folder) == {"a.so", "b.so"}
    monkeypatch.setattr(compiler_checks, "MOST_FILES", 2)
    checks.keep(cache_with(tmp_path / "3", "c.so"))
    assert names_in(checks.folder) == {"c.so"}
    assert [path.name for path in checks.folder.parent.iterdir()] == [checks.folder.name]


def test_a_full_disk_leaves_nothing_half(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = CompilerChecks("/some/python")
    checks.keep(cache_with(tmp_path / "1", "a.so"))
    monkeypatch.setattr(Path, "rename", lambda self, target: (_ for _ in ()).throw(OSError(28, "no space")))
    checks.keep(cache_with(tmp_path / "2", "b.so"))
    left = [path for path in checks.folder.parent.iterdir() if path != checks.folder]
    assert left == []


def lines_of(
    python: str, folder: Path, cwd: Path, switches: tuple[tuple[str, object], ...] = ()
) -> list[str]:
    """What the script prints in a plain run."""
    script = cwd / "script.py"
    script.write_text(SCRIPT)
    program = read_program(script, None, ())
    with Prober(python=python, workspace=Workspace(folder, cwd), workers=1) as prober:
        outcome = prober.ask(
            Probe(program=program, rung=Rung.KERNEL, bare=True, cold=True, switches=switches)  # type: ignore[arg-type]
        )
    return (Path(outcome.folder) / "stdout.txt").read_text().splitlines()


def test_a_plain_run_is_lent_them_and_adds_nothing(home: Path, tmp_path: Path) -> None:
    checks = CompilerChecks(sys.executable)
    checks.keep(cache_with(tmp_path / "server", "ab/x.so"))
    user = tmp_path / "user"
    user.mkdir()
    lent, headers = lines_of(sys.executable, tmp_path / "run", user)
    assert lent == "lent ['x.so']"
    assert names_in(checks.folder) == {"ab/x.so"}
    assert headers.startswith("headers ['/") and headers.endswith("/precompiled_headers']")


def test_a_run_that_measures_is_lent_nothing(home: Path, tmp_path: Path) -> None:
    CompilerChecks(sys.executable).keep(cache_with(tmp_path / "server", "ab/x.so"))
    user = tmp_path / "user"
    user.mkdir()
    assert lines_of(sys.executable, tmp_path / "run", user, (("measure", True),)) == ["lent []", "headers []"]


def test_headers_are_shared_where_torch_keeps_them(tmp_path: Path) -> None:
    usual, private = tmp_path / "usual", tmp_path / "private"
    usual.mkdir()
    private.mkdir()
    share_headers(private, {"TMPDIR": str(usual)})
    (link,) = private.glob("*/precompiled_headers")
    assert Path(os.path.realpath(link)).parent.parent == usual.resolve()
    said = subprocess.run(
        [sys.executable, "-c", "import tempfile, getpass; print(tempfile.gettempdir(), getpass.getuser())"],
        env={**os.environ, "TMPDIR": str(private)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert link.parent == Path(said[0]) / f"torchinductor_{said[1]}"


def test_headers_that_others_may_write_are_not_shared(tmp_path: Path) -> None:
    usual, private = tmp_path / "usual", tmp_path / "private"
    usual.mkdir()
    private.mkdir()
    share_headers(private, {"TMPDIR": str(usual)})
    for path in private.glob("*/precompiled_headers"):
        Path(os.path.realpath(path)).chmod(0o777)
    another = tmp_path / "another"
    another.mkdir()
    share_headers(another, {"TMPDIR": str(usual)})
    assert list(another.iterdir()) == []


def test_they_are_built_once_for_cold_runs_side_by_side(home: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable} -S\n"
        "import os, sys\n"
        f"open({str(tmp_path / 'started')!r}, 'a').write(' '.join(sys.argv[2:]))\n"
        "open(os.path.join(os.environ['TORCHINDUCTOR_CACHE_DIR'], 'x.so'), 'w').close()\n"
        'print(\'{"event": "ready"}\', flush=True)\n'
        "sys.stdin.read()\n"
    )
    python.chmod(0o755)
    for name in ("one", "two"):
        build_compiler_checks(str(python), Workspace(tmp_path / name, tmp_path), os.environ)
    assert names_in(CompilerChecks(str(python)).folder) == {"x.so"}
    assert (tmp_path / "started").read_text() == "serve"


def test_an_interpreter_that_cannot_build_them_runs_without(home: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    build_compiler_checks(str(python), Workspace(tmp_path / "one", tmp_path), os.environ)
    assert not CompilerChecks(str(python)).kept
