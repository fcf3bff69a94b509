"""The commits that touched a piece, on a small repository that git made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from accel_lab.core.errors import LabError
from accel_lab.core.releases.flip_change import Piece
from accel_lab.versions.change import lines_of
from accel_lab.versions.commits import commits_of, read_log, shown_commands

FILE = "torch/shapes.py"
FIRST = "import math\n\n\ndef area(r):\n    return math.pi * r\n\n\ndef other(r):\n    return r\n"
PULL = "Pull Request resolved: https://github.com/pytorch/pytorch/pull/4242"


def git(clone: Path, *words: str) -> None:
    who = {f"GIT_{role}_{part}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    subprocess.run(
        ["git", "-C", str(clone), "-c", "init.defaultBranch=main", *words],
        env={**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        check=True,
        capture_output=True,
    )


def commit(clone: Path, text: str, *message: str) -> None:
    path = clone / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    git(clone, "add", "-A")
    git(clone, "commit", "-q", *(word for part in message for word in ("-m", part)))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    git(folder, "init", "-q")
    commit(folder, FIRST, "Begin (#1)")
    git(folder, "tag", "v2.13.0")
    moved = "# a line above\n" + FIRST
    commit(folder, moved, "Something above (#2)")
    mended = moved.replace("math.pi * r", "math.pi * r * r")
    commit(folder, mended, "Mend the area", PULL)
    commit(folder, mended.replace("return r\n", "return -r\n"), "Another function (#3)")
    git(folder, "tag", "v2.14.1")
    return folder


def piece(clone: Path) -> Piece:
    return Piece(file=FILE, symbol="area", lines=lines_of((clone / FILE).read_text(), FILE, "area"))


def test_only_what_touched_the_lines_is_named_with_its_pull_request(clone: Path, tmp_path: Path) -> None:
    (found,) = commits_of(clone, [piece(clone)], "2.13.0", "2.14.1", tmp_path)
    assert (found.subject, found.pull) == ("Mend the area", 4242)
    assert list(tmp_path.iterdir()) == []


def test_the_command_to_type_counts_lines_in_the_newer_release(clone: Path) -> None:
    assert piece(clone).lines == (5, 6)
    assert shown_commands([piece(clone)], "2.13.0", "2.14.1") == [
        "git log -L5,6:torch/shapes.py v2.13.0..v2.14.1"
    ]
    assert shown_commands([Piece(file=FILE, symbol="gone")], "2.13.0", "2.14.1") == []


@pytest.mark.parametrize(
    ("older", "says"), [("2.12.0", "has no tag v2.12.0: run git fetch --tags in it"), ("x", "no tag vx")]
)
def test_a_clone_without_the_tag_is_told(clone: Path, tmp_path: Path, older: str, says: str) -> None:
    with pytest.raises(LabError, match=says):
        commits_of(clone, [piece(clone)], older, "2.14.1", tmp_path)


def test_what_is_no_clone_is_told(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match="is not a clone"):
        commits_of(tmp_path / "empty", [piece(clone)], "2.13.0", "2.14.1", tmp_path / "work")


def test_a_shallow_clone_is_told(clone: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", str(shallow))
    git(shallow, "tag", "-f", "v2.13.0")
    git(shallow, "tag", "-f", "v2.14.1")
    with pytest.raises(LabError, match="is shallow"):
        commits_of(shallow, [piece(clone)], "2.13.0", "2.14.1", tmp_path / "work")


def test_the_number_of_a_subject_counts_where_the_body_has_none() -> None:
    sha = "a" * 40
    text = f"{sha}\x1fFix it (#77)\x1f\x1e\n{'b' * 40}\x1fSay (#1) first\x1f{PULL}\x1e\nnonsense\x1e"
    assert [(one.sha[0], one.pull) for one in read_log(text)] == [("a", 77), ("b", 4242)]


def test_the_lines_of_a_method_and_of_what_is_not_there() -> None:
    source = "class A:\n    x = 1\n\n    def f(self):\n        return 1\n"
    assert lines_of(source, FILE, "A.f") == (4, 5)
    assert lines_of(source, FILE, "A.g") == () == lines_of("def f(:", FILE, "f")
