"""The files of an installed torch, as the child tells and copies them, and what two builds differ in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import accel_lab
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.stages import Stage
from accel_lab.versions.files import Sources, compare, sources


def torch_at(folder: Path, files: dict[str, str]) -> Path:
    """A package named torch with these files; it cannot be imported."""
    for name, text in {"torch/__init__.py": "raise ImportError\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def told(tmp_path: Path, packages: Path, *prefixes: str) -> dict[str, Any]:
    library = tmp_path / "lib" / "accel_lab_child"
    if not library.exists():
        shutil.copytree(Path(accel_lab.__file__).parent / "child", library)
    done = subprocess.run(
        [sys.executable, str(library), "files", str(tmp_path / "copies"), *prefixes],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(packages)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_files_are_listed_and_copied_without_importing_torch(tmp_path: Path) -> None:
    packages = torch_at(
        tmp_path / "site",
        {
            "torch/_inductor/ir.py": "a = 1\n",
            "torch/_inductor/codegen/cpp_prefix.h": "// c\n",
            "torch/_dynamo/x.py": "b = 2\n",
            "torch/lib/libtorch.so": "elf",
        },
    )
    found = told(tmp_path, packages, "torch/_inductor/")
    assert set(found["files"]) == {"torch/_inductor/ir.py", "torch/_inductor/codegen/cpp_prefix.h"}
    assert (tmp_path / "copies" / "torch" / "_inductor" / "ir.py").read_text() == "a = 1\n"
    assert not (tmp_path / "copies" / "torch" / "_dynamo").exists()
    assert set(found["native"]) == {"libtorch.so"}


def test_headers_are_listed_where_their_folder_is_named(tmp_path: Path) -> None:
    headers = {
        f"torch/include/{name}": "// c" for name in ("ATen/cpu/vec/vec.h", "ATen/ops/add.h", "c10/a.h")
    }
    packages = torch_at(tmp_path / "site", headers)
    found = told(tmp_path, packages, "torch/", "torch/include/ATen/cpu/")
    assert [name for name in found["files"] if name.endswith(".h")] == ["torch/include/ATen/cpu/vec/vec.h"]


def bench(tmp_path: Path, version: str, files: dict[str, str], native: str, own: bool = True) -> Any:
    """A bench whose child answers from a table; not ``own``: it works in the run's folder, as others do."""
    folder = tmp_path / (version if own else "run")
    folder.mkdir(exist_ok=not own)

    def child_output(name: str, words: list[str], **_: Any) -> str:
        target = Path(words[1])
        for path, text in files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text)
        return json.dumps({"files": files, "native": {"libtorch.so": native}})

    return SimpleNamespace(version=version, folder=folder, prober=SimpleNamespace(child_output=child_output))


def failure(*files: str) -> Outcome:
    frames = tuple(Frame(file=file, line=1, function="f") for file in files)
    return Outcome(status=Status.EXCEPTION, raised=Raised(type="E", message="m", frames=frames))


def test_changed_files_come_innermost_of_the_traceback_first(tmp_path: Path) -> None:
    names = [f"torch/_inductor/scheduler{n}.py" for n in range(4)]
    good = bench(tmp_path, "1.0", dict.fromkeys(names, "a\nb\nc\n"), "x")
    bad_files = dict.fromkeys(names[:3], "a\nB\nc\n") | {names[3]: "a\nb\nc\n"}
    bad_files[names[2]] = "1\n2\n3\n4\n"
    bad = bench(tmp_path, "2.0", bad_files, "y")
    found = compare(good, bad, Stage.SCHEDULER, failure("user.py", names[0], names[1]))
    assert not isinstance(found, str)
    assert [c.path for c in found.changed] == [names[1], names[0], names[2]]
    assert [(c.added, c.removed) for c in found.changed] == [(1, 1), (1, 1), (4, 3)]
    assert [diff.path for diff in found.diffs] == [names[1], names[0]]
    assert "+B" in found.diffs[0].text
    assert found.summary == "3 of the 4 files of scheduler differ, in 11 lines"
    assert not found.same
    assert not list(tmp_path.rglob("copies"))  # the copies are not kept


def test_two_benches_in_one_folder_keep_their_copies_apart(tmp_path: Path) -> None:
    name = "torch/_inductor/scheduler.py"
    good = bench(tmp_path, "1.0", {name: "a\n"}, "x", own=False)
    bad = bench(tmp_path, "2.0", {name: "b\n"}, "y", own=False)
    found = compare(good, bad, Stage.SCHEDULER, None)
    assert not isinstance(found, str)
    assert [(c.added, c.removed) for c in found.changed] == [(1, 1)]


def test_a_file_whose_changed_lines_name_the_culprit_comes_first(tmp_path: Path) -> None:
    names = [f"torch/_inductor/fx_passes/{n}.py" for n in ("a", "b")]
    old = {names[0]: "1\n" * 50, names[1]: "def my_pattern(x):\n    return 1\n"}
    new = {names[0]: "2\n" * 50, names[1]: "def my_pattern(x, y):\n    return 1\n"}
    one, two = bench(tmp_path, "1.0", new, "x"), bench(tmp_path, "2.0", old, "y")
    found = compare(one, two, Stage.FX_PASSES, None, "patterns.my_pattern")
    assert not isinstance(found, str)
    assert [(c.path, c.names) for c in found.changed] == [(names[1], True), (names[0], False)]
    assert [diff.path for diff in found.diffs] == [names[1]]
    short = compare(one, two, Stage.FX_PASSES, None, "x")
    assert not isinstance(short, str) and not any(c.names for c in short.changed)


def test_no_difference_is_suspect(tmp_path: Path) -> None:
    files = {"torch/_inductor/scheduler.py": "a\n"}
    one, two, three = (
        bench(tmp_path, name, files, native) for name, native in (("1.0", "x"), ("2.0", "x"), ("3.0", "y"))
    )
    same = compare(one, two, Stage.SCHEDULER, None)
    assert not isinstance(same, str)
    assert same.same and "the flip is suspect" in same.summary
    native = compare(one, three, Stage.SCHEDULER, None)
    assert not isinstance(native, str)
    assert not native.same and "the native libraries differ" in native.summary


def test_a_stage_without_files_and_a_child_that_fails_are_said(tmp_path: Path) -> None:
    one, two = bench(tmp_path, "1.0", {}, "x"), bench(tmp_path, "2.0", {}, "x")
    assert compare(one, two, Stage.EAGER, None) == "eager has no files of its own"
    two.prober.child_output = lambda *words, **_: json.dumps({"error": "no package named torch"})
    assert compare(one, two, Stage.SCHEDULER, None) == "torch 2.0: no package named torch"
    assert isinstance(sources(one, ["torch/"]), Sources)
