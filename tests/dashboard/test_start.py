"""What a form starts: a script inside the roots, by words that the command line cannot take for others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accel_lab.cli.commands.bisect_command import command as bisect
from accel_lab.core.errors import UsageError
from accel_lab.dashboard.forms import OPTIONS, Misused, bisection_of
from accel_lab.dashboard.places import NotThere, Places, places, script_inside, scripts

FULL = {
    "budget": "5m",
    "timeout": "90",
    "memory": "2048",
    "minimize-for": "30s",
    "versions": "2.4..2.6,2.9.0",
    "accelerator": "mock",
    "fail-regex": "--check=touch x",
    "ablation": "full",
    "cold": "1",
    "signed-zero": "1",
    "no-minimize": "1",
    "no-workarounds": "1",
}


@pytest.fixture
def where(tmp_path: Path) -> Places:
    for name in ("root/deep", "other", "home/runs", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "root/repro.py",
        "root/deep/note.ipynb",
        "other/two.py",
        "outside/secret.py",
        "root/data.txt",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "root" / "out.py").symlink_to(tmp_path / "outside" / "secret.py")
    (tmp_path / "root" / "in.py").symlink_to(tmp_path / "root" / "repro.py")
    (tmp_path / "root" / "away").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "root" / "pipe.py")
    roots = (tmp_path / "root", tmp_path / "other")
    return places(roots, {"runs": tmp_path / "home" / "runs"}, ("/a/python", "/b/python"))


def test_a_script_is_found_in_any_root(where: Places) -> None:
    root, other = where.roots
    assert script_inside("repro.py", where.roots) == root / "repro.py"
    assert script_inside("deep/../repro.py", where.roots) == root / "repro.py"
    assert script_inside("in.py", where.roots) == root / "repro.py"
    assert script_inside("two.py", where.roots) == other / "two.py"
    assert script_inside(str(root / "deep" / "note.ipynb"), where.roots) == root / "deep" / "note.ipynb"


@pytest.mark.parametrize(
    "said",
    [
        *(
            "",
            "none.py",
            "out.py",
            "away/secret.py",
            "../outside/secret.py",
            "/etc/passwd",
            "deep",
            "data.txt",
        ),
        *("pipe.py", "a\0b.py", "x" * 5000, ".", "/", "~/x.py", "repro.py/../../outside/secret.py", "--help"),
    ],
)
def test_what_is_no_script_inside_the_roots_is_refused(where: Places, said: str) -> None:
    with pytest.raises(NotThere):
        script_inside(said, where.roots)
    outside = where.roots[0].parent / "outside" / "secret.py"
    with pytest.raises(NotThere):
        script_inside(str(outside), where.roots)


def test_scripts_are_offered_without_links_and_environments(where: Places, tmp_path: Path) -> None:
    (tmp_path / "root" / "venv").mkdir()
    (tmp_path / "root" / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "root" / "venv" / "x.py").write_text("")
    assert scripts(where.roots) == [str(tmp_path / "other" / "two.py"), "deep/note.ipynb", "repro.py"]


def test_a_root_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        places((tmp_path / "none",), {"runs": tmp_path}, ("python",))


def read(words: tuple[str, ...]) -> dict[str, object]:
    """What the command line makes of the words."""
    assert words[0] == "bisect"
    context = bisect.make_context("bisect", list(words[1:]))
    return context.params


def test_the_form_has_options_of_bisect_and_their_values_arrive(where: Places) -> None:
    assert set(FULL) == {option.name for option in OPTIONS}
    script, words = bisection_of({"script": "repro.py", "python": "/b/python", **FULL}, where)
    found = read(words)
    assert found["program"] == (str(script),) and found["module"] is None
    assert found["python"] == "/b/python" and found["out"] == str(where.new_runs)
    assert found["budget_s"] == 300.0 and found["timeout"] == 90.0 and found["memory"] == 2048
    assert found["minimize_for"] == 30.0 and found["versions"] == "2.4..2.6,2.9.0"
    assert found["accelerator"] == "mock" and found["ablation"] == "full"
    assert found["fail_regex"] == "--check=touch x" and found["check"] is None
    assert all(found[name] is True for name in ("cold", "signed_zero", "no_minimize", "no_workarounds"))


def test_what_is_left_empty_is_not_said(where: Places) -> None:
    script, words = bisection_of({"script": "repro.py", "arguments": "", "budget": " ", "cold": ""}, where)
    assert words == ("bisect", f"--out={where.new_runs}", "--python=/a/python", "--", str(script))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("--out /etc --check 'touch x'", ("--out", "/etc", "--check", "touch x")),
        ("-m os", ("-m", "os")),
        ("-- --help", ("--", "--help")),
        (
            "$(touch x) `touch x`;touch x | & > x",
            ("$(touch", "x)", "`touch", "x`;touch", "x", "|", "&", ">", "x"),
        ),
        ("'a b' \"c d\" e\\ f", ("a b", "c d", "e f")),
        ("--resume RUN --config x", ("--resume", "RUN", "--config", "x")),
    ],
)
def test_words_of_the_script_stay_words_of_the_script(
    where: Places, typed: str, words: tuple[str, ...]
) -> None:
    script, command = bisection_of({"script": "repro.py", "arguments": typed}, where)
    found = read(command)
    assert found["program"] == (str(script), *words)
    assert found["module"] is None and found["check"] is None and found["resume"] is None
    assert found["out"] == str(where.new_runs)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("budget", "--check=x"),
        ("budget", "5m --check=x"),
        ("timeout", "-1"),
        ("timeout", "nan"),
        ("memory", "1e9"),
        ("versions", "--provider=docker"),
        ("versions", "2.4 --check x"),
        ("accelerator", "-x"),
        ("accelerator", "../x"),
        ("ablation", "all"),
        ("fail-regex", "a\nb"),
        ("fail-regex", "a\x1b[31m"),
        ("fail-regex", "x" * 5000),
        ("arguments", "'open"),
        ("arguments", "a\0b"),
        ("arguments", "x " * 300),
        ("python", "/bin/sh"),
        ("python", "--help"),
    ],
)
def test_what_cannot_be_meant_is_refused(where: Places, name: str, value: str) -> None:
    with pytest.raises(Misused):
        bisection_of({"script": "repro.py", name: value}, where)


def test_runs_in_a_root_are_shown_too(where: Places) -> None:
    root = where.roots[0]
    assert where.runs["root1"] == root and where.runs["root1-runs"] == root / "runs"
