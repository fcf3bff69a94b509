"""Which files a program opens: what the child's audit hook notes, and what the lab makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.process_exit import ProcessExit
from accel_lab.execution.collect import collect

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import os, runpy, sys
from accel_lab.child.opened_files import Opened
folder, script = sys.argv[1:3]
sys.argv = sys.argv[2:]
sys.path[0] = os.path.dirname(script)
opened = Opened(folder, script)
opened.start()
try:
    runpy.run_path(script, run_name="__main__")
finally:
    opened.finish()
"""


def hear(tmp_path: Path, text: str, files: tuple[str, ...] = (), cwd: str = ".") -> dict[str, Any]:
    """The facts of a program in ``tmp_path/proj`` with the files beside it, as the lab collects them."""
    project, folder = tmp_path / "proj", tmp_path / "probe"
    folder.mkdir()
    for name in files:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n" if name.endswith(".py") else "1", encoding="utf-8")
    project.mkdir(exist_ok=True)
    (project / "main.py").write_text(text, encoding="utf-8")
    env = {"PYTHONPATH": str(ROOT / "bisect"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), str(project / "main.py")],
        cwd=project / cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "accel_lab" not in done.stderr, done.stderr
    facts = collect(folder, ProcessExit(exit_code=done.returncode), warm=False, bare=False).facts["opened"]
    assert facts.pop("cwd") == str((project / cwd).resolve())

    def near(path: str) -> str:
        return str(Path(path).relative_to(project)) if Path(path).is_relative_to(project) else ""

    return {kind: sorted(filter(None, map(near, names))) for kind, names in facts.items()}


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("open('a.txt').read()", "read", "a.txt"),
        ("open('a.txt', 'rb+').read()", "read", "a.txt"),
        ("open('a.txt', 'a')", "written", "a.txt"),
        ("open('a.txt', 'w+')", "written", "a.txt"),
        ("open(b'a.txt').read()", "read", "a.txt"),
        ("import os; os.open('a.txt', os.O_RDONLY)", "read", "a.txt"),
        ("import pathlib; pathlib.Path('a.txt').read_bytes()", "read", "a.txt"),
        ("import os; os.listdir('data')", "listed", "data"),
        ("import glob; glob.glob('data/*')", "listed", "data"),
        ("import os; next(os.scandir('data'))", "listed", "data"),
        ("import helper", "read", "helper.py"),
        ("import pkg.deep", "read", "pkg/deep.py"),
        ("import subprocess, sys; subprocess.run([sys.executable, 'helper.py'])", "handed", "helper.py"),
        ("import subprocess; subprocess.run('cat a.txt', shell=True)", "handed", "a.txt"),
        ("import subprocess; subprocess.run(['cat', 'a.txt'], cwd='data')", "handed", "data/a.txt"),
        ("import os; os.system('cat a.txt')", "handed", "a.txt"),
        ("import sqlite3; sqlite3.connect('a.db').close()", "handed", "a.db"),
        (
            "import os\nif os.fork() == 0:\n    open('a.txt').read()\n    os._exit(0)\nos.wait()",
            "read",
            "a.txt",
        ),
        (
            "import threading as t\nx = t.Thread(target=open, args=['a.txt'])\nx.start()\nx.join()",
            "read",
            "a.txt",
        ),
        # It is told at once: what kills the program takes nothing back.
        ("import os\nopen('a.txt').read()\nos.kill(os.getpid(), 9)", "read", "a.txt"),
        ("import os\nos.closerange(3, 99)\nopen('a.txt').read()", "read", "a.txt"),
    ],
)
def test_what_a_program_opens(tmp_path: Path, text: str, kind: str, name: str) -> None:
    files = (
        "a.txt",
        "a.db",
        "b.txt",
        "data/a.txt",
        "helper.py",
        "other.py",
        "pkg/__init__.py",
        "pkg/deep.py",
    )
    found = hear(tmp_path, text, files)
    assert name in found.get(kind, [])
    told = {one for names in found.values() for one in names} - {"main.py", "pkg/__init__.py"}
    assert told == {name}


def test_a_mapping_that_no_python_opened_is_read_off_the_process(tmp_path: Path) -> None:
    text = "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\nf = c.open(b'a.txt', 0)\n"
    text += "c.mmap.restype = ctypes.c_void_p\nprint(c.mmap(None, ctypes.c_size_t(1), 1, 2, f, 0))\n"
    found = hear(tmp_path, text, ("a.txt",))
    assert "a.txt" in found["read"]


def test_a_compiled_module_stands_for_its_source(tmp_path: Path) -> None:
    import py_compile

    project = tmp_path / "proj"
    project.mkdir()
    (project / "helper.py").write_text("x = 1\n", encoding="utf-8")
    py_compile.compile(str(project / "helper.py"))
    found = hear(tmp_path, "import helper\n")
    assert "helper.py" in found["read"]


def test_a_program_cannot_be_harmed_by_it(tmp_path: Path) -> None:
    """Odd events, odd values, and a hook that cannot write any more."""
    text = (
        "import sys, shutil\nfor event in ('open', 'import', 'os.listdir', 'subprocess.Popen', 'os.exec'):\n"
    )
    text += "    for args in ((), (1,), (None, None, None), ('\\0', 'r', 0), (object(),) * 3):\n"
    text += "        sys.audit(event, *args)\nopen('a.txt')\n"
    text += (
        f"shutil.rmtree({str(tmp_path / 'probe')!r} + '/x', ignore_errors=True)\nopen('b.txt')\nsys.exit(7)\n"
    )
    found = hear(tmp_path, text, ("a.txt", "b.txt"))
    assert {"a.txt", "b.txt", "main.py"} <= set(found["read"])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[1, 2]",
        b'["read"]',
        b'["read", 3]',
        b'["evil", "x"]',
        b'["read", "x',
        b"9" * 99,
    ],
)
def test_the_log_is_a_strangers_word(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "opened.txt").write_bytes(line + b"\n" + json.dumps(["read", "/a"]).encode() + b"\n")
    facts = collect(tmp_path, ProcessExit(exit_code=0), warm=False, bare=False).facts
    assert facts["opened"] == {"read": ["/a"]}


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('["read", "/a"]\n', encoding="utf-8")
    (tmp_path / "opened.txt").symlink_to(tmp_path / "real")
    assert "opened" not in collect(tmp_path, ProcessExit(exit_code=0), warm=False, bare=False).facts
