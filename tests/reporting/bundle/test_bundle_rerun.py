"""A bundle is what it says: it runs again from a clean folder, alone, and fails as the program did."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.cli import bundle_check
from accel_lab.core.findings import Repro, ReproProof
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Program
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.bundle.issue import issue_markdown
from accel_lab.reporting.bundle.project import Project
from accel_lab.reporting.bundle.project_copy import keep_project, project_of
from accel_lab.reporting.bundle.size_budget import Entry, choose
from accel_lab.reporting.bundle.verify import check_bundle, extract_bundle
from accel_lab.reporting.bundle.writer import BundleReport, write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.repro_reader import without
from fakes_run import FakeRun

ROOT = Path(__file__).resolve().parents[3]
FAILS = "raise ValueError('wrong number 7')\n"


class Recorded(FakeRun):
    """A finished run of a project in ``root/proj``, whose program raises ``ValueError: wrong number 7``."""

    def __init__(
        self,
        root: Path,
        files: Mapping[str, str | bytes],
        *,
        script: str | None = "main.py",
        module: str | None = None,
        args: Sequence[str] = (),
        cwd: str = "",
        stdin: str | None = None,
        opened: Mapping[str, Sequence[str]] | None = None,
        outcome: Outcome | None = None,
        signature: Signature | None = None,
    ) -> None:
        """``opened`` are the files of the project by kind, as the child noted them; None: it could not."""
        (root / "lab").mkdir(parents=True)
        super().__init__(root / "lab", "passes")
        self.home = root / "proj"
        write(self.home, files)
        path = str(self.home / script) if script is not None else None
        self.program = Program(path=path, module=module, args=tuple(args), sha256="0" * 64)
        facts: dict[str, Any] = {}
        if opened is not None:
            named = {kind: [str(self.home / name) for name in names] for kind, names in opened.items()}
            facts["opened"] = {"cwd": str(self.home / cwd), **named}
        outcome = outcome or Outcome(
            status=Status.EXCEPTION,
            exit_code=1,
            raised=Raised(type="ValueError", message="wrong number 7"),
            torch="2.14.1",
            python="3.11.7",
        )
        outcome = replace(outcome, facts=facts)
        signature = signature or Signature(
            kind="exception", type="ValueError", message=normalise("wrong number 7")
        )
        step = self.step(Rung.KERNEL, Verdict.BAD, outcome=outcome, signature=signature, bare=True)
        found = self.findings
        self.findings = replace(
            found, program=self.program, verdict="fails", baseline=[step], signature=signature, ladder=[]
        )
        self.findings.environment = {"executable": str(fake_interpreter(root)), "provider": "local"}
        given = str(self.home / stdin) if stdin is not None else None
        request = {"cwd": str(self.home / cwd), "stdin": given}
        (self.run_dir / "request.json").write_text(json.dumps(request), encoding="utf-8")

    def project(self, **options: Any) -> Project:
        return keep_project(self.findings, self.run_dir, **options)

    def bundle(self, **options: Any) -> BundleReport:
        keep_project(self.findings, self.run_dir)
        redactor = Redactor(homes=["/home/alice"], users=["alice"], hosts=["box77"])
        return write_bundle(
            self.findings, self.run_dir, self.root / "bundle.zip", redactor=redactor, **options
        )

    def write_checked_bundle(self, **options: Any) -> tuple[BundleReport, bundle_check.BundleCheck]:
        return bundle_check.write_checked_bundle(
            self.findings, self.run_dir, self.root / "bundle.zip", verify=True, fresh=True, **options
        )


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def fake_interpreter(root: Path) -> Path:
    """This Python with an empty package called torch: enough for programs that do not use it."""
    folder = root / "python"
    (folder / "site" / "torch").mkdir(parents=True, exist_ok=True)
    (folder / "site" / "torch" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "bin").mkdir(exist_ok=True)
    path = folder / "bin" / "python"
    more = f'PYTHONPATH="$PYTHONPATH:{folder}/site" exec "{sys.executable}" "$@"'
    path.write_text(f"#!/bin/sh\n{more}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def rerun(path: Path, python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a stranger does: unpack, and run with nothing of this environment."""
    if not folder.exists():
        extract_bundle(path, folder)
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    env = {name: os.environ[name] for name in ("PATH", "HOME")}
    command = [python, str(folder / "rerun.py")]
    return subprocess.run(
        command, cwd=elsewhere, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def names(project: Project) -> dict[str, str]:
    return {member.name: member.why for member in project.members}


# -- what belongs to a program -------------------------------------------------------------------


def test_what_a_run_opened_goes_in_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "main.py": "import pkg\nimport helper\n",
        "helper.py": "import second\n",
        "second.py": "",
        "pkg/__init__.py": "",
        "pkg/deep.py": "",
        "conf/cfg.json": "{}",
        "data/a.bin": b"\0\1",
        "data/unread.bin": b"\0\1",
        "notes.txt": "private",
        "out/made.txt": "the user's old one",
    }
    opened = {
        "read": ["main.py", "pkg/__init__.py", "conf/cfg.json", "data/a.bin", "gone.txt", "conf"],
        "written": ["out/made.txt"],
    }
    run = Recorded(tmp_path, files, opened=opened)
    found = names(run.project())
    assert found == {
        "main.py": "script",
        "helper.py": "imported",
        "second.py": "imported",
        "pkg/__init__.py": "read",
        "pkg/deep.py": "imported",
        "conf/cfg.json": "read",
        "data/a.bin": "read",
    }
    whole = names(run.project(whole=True))
    assert {name for name, why in whole.items() if why == "beside"} == {
        "notes.txt",
        "data/unread.bin",
        "out/made.txt",
    }


def test_a_folder_that_was_listed_goes_in_unless_modules_lie_there(tmp_path: Path) -> None:
    files = {
        "main.py": "",
        "data/a.txt": "1",
        "data/b.txt": "2",
        "src/x.py": "",
        "src/y.txt": "",
        "z.txt": "",
    }
    run = Recorded(tmp_path, files, opened={"listed": ["data", "src", "."]})
    assert names(run.project()) == {"main.py": "script", "data/a.txt": "listed", "data/b.txt": "listed"}


@pytest.mark.parametrize(
    ("opened", "packed"),
    [
        ({"read": ["main.py"], "spawned": ["<spawn>"]}, True),
        ({"read": ["main.py"], "handed": ["work.py"]}, True),
        ({"read": ["main.py"], "handed": ["list.txt"]}, False),
    ],
    ids=["multiprocessing", "a script", "another program"],
)
def test_what_another_python_may_have_opened_goes_in(
    tmp_path: Path, opened: dict[str, list[str]], packed: bool
) -> None:
    files = {"main.py": "", "work.py": "", "list.txt": "", "data/meta.json": "{}", ".env": "A=b"}
    found = names(Recorded(tmp_path, files, opened=opened).project())
    assert ("data/meta.json" in found) is packed
    assert ".env" not in found


SPAWNS = """
import json, multiprocessing, pathlib

def work(queue, folder):
    queue.put(json.loads((pathlib.Path(folder) / "meta.json").read_text()))

if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, pathlib.Path(__file__).parent))
    process.start()
    print(queue.get())
    process.join()
"""


@pytest.mark.parametrize(("method", "told"), [("spawn", True), ("forkserver", True), ("fork", False)])
def test_a_python_that_multiprocessing_starts_is_told(tmp_path: Path, method: str, told: bool) -> None:
    """Nothing is heard in it, other than in a fork."""
    script = tmp_path / "proj" / "main.py"
    write(tmp_path / "proj", {"main.py": SPAWNS.replace("METHOD", repr(method)), "meta.json": "7"})
    (tmp_path / "probe").mkdir()
    code = (
        f"import runpy, sys\nfrom accel_lab.child.opened_files import Opened\nsys.argv[1:] = []\n"
        f"Opened({str(tmp_path / 'probe')!r}, {str(script)!r}).start()\n"
        f"runpy.run_path({str(script)!r}, run_name='__main__')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bisect")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "7\n", done.stderr
    kinds = [json.loads(line) for line in (tmp_path / "probe" / "opened.txt").read_text().splitlines()]
    assert ("spawned" in {kind for kind, _ in kinds}) is told
    assert (["read", str(tmp_path / "proj" / "meta.json")] in kinds) is not told


def test_the_working_directory_above_the_script_keeps_its_place(tmp_path: Path) -> None:
    files = {"scripts/main.py": "", "conf/cfg.json": "{}"}
    run = Recorded(
        tmp_path, files, script="scripts/main.py", args=["--config=conf/cfg.json"], opened={"read": []}
    )
    found = run.project()
    assert names(found) == {"scripts/main.py": "script", "conf/cfg.json": "argument"}
    assert (found.script, found.cwd, found.args) == ("scripts/main.py", "", ("--config=conf/cfg.json",))


def test_a_module_beside_the_scripts_folder_belongs_to_the_repository(tmp_path: Path) -> None:
    files = {"pyproject.toml": "", "scripts/main.py": "", "src/lib/__init__.py": "", "other/x.txt": ""}
    opened = {"read": ["src/lib/__init__.py"], "pythonpath": ["src"]}
    run = Recorded(tmp_path, files, script="scripts/main.py", cwd="scripts", opened=opened)
    found = run.project()
    assert names(found) == {"scripts/main.py": "script", "src/lib/__init__.py": "read"}
    assert (found.script, found.cwd, found.pythonpath) == ("scripts/main.py", "scripts", ("src",))


def test_arguments_are_named_by_where_they_will_lie(tmp_path: Path) -> None:
    write(tmp_path, {"far/w.bin": b"\0", "far/dir/x": ""})
    here, far = tmp_path / "proj", tmp_path / "far"
    args = [f"--w={far}/w.bin", str(here / "cfg.json"), f"{here}/t.py::case[1]", "--n", "3", str(far / "dir")]
    files = {"main.py": "", "cfg.json": "{}", "t.py": ""}
    run = Recorded(tmp_path, files, args=args, opened={"read": []})
    found = run.project()
    assert found.args == ("--w=inputs/w.bin", "cfg.json", "t.py::case[1]", "--n", "3", str(far / "dir"))
    assert names(found)["inputs/w.bin"] == "argument"


def test_what_lies_elsewhere_or_is_secret_is_named_and_left(tmp_path: Path) -> None:
    write(tmp_path, {"far/w.bin": b"\0", "far/c.txt": ""})
    files = {"main.py": "", ".env": "TOKEN=1", "keys/a.pem": "x", "ok.txt": ""}
    run = Recorded(
        tmp_path, files, opened={"read": [".env", "keys/a.pem", "link.txt", "ok.txt", "../far/w.bin"]}
    )
    (run.home / "link.txt").symlink_to(tmp_path / "far/c.txt")
    found = run.project(whole=True)
    assert set(names(found)) == {"main.py", "ok.txt"}
    assert {Path(one.path).name: one.reason for one in found.apart} == {
        ".env": "secret, by its name",
        "a.pem": "secret, by its name",
        "link.txt": "a link that leads out of the folder",
        "w.bin": "outside the script's folder",
    }


def test_a_module_run_is_its_working_directory(tmp_path: Path) -> None:
    files = {"pyproject.toml": "", "tests/test_x.py": "", "src/ragged/__init__.py": "", "x/y.txt": ""}
    opened = {"read": ["pyproject.toml", "tests/test_x.py", "src/ragged/__init__.py"]}
    run = Recorded(tmp_path, files, script=None, module="pytest", args=["-q"], opened=opened)
    found = run.project()
    assert set(names(found)) == {"pyproject.toml", "tests/test_x.py", "src/ragged/__init__.py"}
    assert (found.script, found.module, found.cwd, found.args) == (None, "pytest", "", ("-q",))


def test_the_parent_of_everything_is_nobodys_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "proj"))
    files = {"main.py": "", "letters/x.txt": "", "cfg.json": ""}
    run = Recorded(tmp_path, files, opened={"read": ["cfg.json"]})
    assert set(names(run.project(whole=True))) == {"main.py", "cfg.json"}


@pytest.mark.parametrize("opened", [{"read": 3}, {"read": [3, None, "\0"]}, {"cwd": 3, "listed": {}}])
def test_what_the_child_says_is_a_strangers_word(tmp_path: Path, opened: dict[str, Any]) -> None:
    run = Recorded(tmp_path, {"main.py": ""}, opened={})
    run.findings.baseline[0].outcome.facts["opened"] = opened
    assert names(run.project(whole=True)) == {"main.py": "script"}


# -- running a bundle again ----------------------------------------------------------------------

NEEDS_ALL = """
import json, pathlib, sys
from pkg import helper
HERE = pathlib.Path(__file__).resolve().parent
assert json.load(open(HERE / "conf/cfg.json"))["n"] == 7
assert pathlib.Path("data/a.bin").read_bytes() == bytes([0, 1, 255])
assert sys.argv[1:] == ["--config", "conf/cfg.json"], sys.argv
assert sys.stdin.read() == "seven"
assert not (HERE / "state.txt").exists()
(HERE / "state.txt").write_text("a second run here passes")
raise ValueError(f"wrong number {helper.N}")
"""
PROJECT: dict[str, str | bytes] = {
    "main.py": NEEDS_ALL,
    "pkg/__init__.py": "",
    "pkg/helper.py": "from .deep import N\n",
    "pkg/deep.py": "N = 7\n",
    "conf/cfg.json": '{"n": 7}',
    "data/a.bin": bytes([0, 1, 255]),
    "in.txt": "seven",
}
OPENED = {
    "read": ["main.py", "pkg/__init__.py", "pkg/helper.py", "pkg/deep.py", "conf/cfg.json", "data/a.bin"]
}


def full(root: Path, **options: Any) -> Recorded:
    return Recorded(
        root, PROJECT, args=["--config", "conf/cfg.json"], stdin="in.txt", opened=OPENED, **options
    )


def test_a_project_runs_again_by_itself(tmp_path: Path) -> None:
    run = full(tmp_path)
    made = run.bundle()
    check_bundle(made.path)
    python = str(run.findings.environment["executable"])
    run.home.rename(tmp_path / "away")
    for _ in range(2):  # in the same folder: what a run writes is not there for the next one
        done = rerun(made.path, python, tmp_path / "out")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "\nMATCH: ValueError" in done.stdout
    direct = subprocess.run(
        [python, str(tmp_path / "out/repro.py")], capture_output=True, text=True, check=False
    )
    assert direct.returncode == 1 and "ValueError: wrong number 7" in direct.stderr
    told = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert "python main.py --config conf/cfg.json < stdin.txt" in told
    issue = (tmp_path / "out/ISSUE.md").read_text(encoding="utf-8")
    assert "Run: `python main.py --config conf/cfg.json < in.txt`" in issue


@pytest.mark.parametrize("code", [0, 1])
def test_a_package_runs_again_with_dash_m(tmp_path: Path, code: int) -> None:
    """As ``python -m tool``: with ``__main__``, the working directory first, and its own exit code."""
    files = {
        "tool/__init__.py": "",
        "tool/__main__.py": "import sys, pathlib\nfrom tool import x\n"
        "assert pathlib.Path('cfg.txt').read_text() == 'c'\nsys.exit(x.CODE)\n",
        "tool/x.py": f"CODE = {4 if code == 0 else 5}\n",
        "cfg.txt": "c",
    }
    opened = {"read": ["tool/__init__.py", "tool/__main__.py", "tool/x.py", "cfg.txt"]}
    run = Recorded(
        tmp_path,
        files,
        script=None,
        module="tool",
        opened=opened,
        outcome=Outcome(status=Status.EXIT, exit_code=4),
        signature=Signature(kind="exit", type="exit 4"),
    )
    made = run.bundle()
    python = str(run.findings.environment["executable"])
    run.home.rename(tmp_path / "away")
    assert rerun(made.path, python, tmp_path / "out").returncode == code


@pytest.mark.parametrize(
    ("test", "code"),
    [("test_a[2]", 0), ("test_b", 1)],
)
def test_the_tests_that_fail_must_be_the_same(tmp_path: Path, test: str, code: int) -> None:
    cases = "import pytest\nfrom ragged import N\n\n@pytest.mark.parametrize('n', [1, 2])\n"
    cases += "def test_a(n):\n    assert n != N\n\ndef test_b():\n    pass\n"
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
        "tests/conftest.py": "import pathlib\nassert pathlib.Path('data.txt').exists()\n",
        "tests/test_x.py": cases,
        "src/ragged/__init__.py": "N = 2\n",
        "data.txt": "",
    }
    run = Recorded(
        tmp_path,
        files,
        script=None,
        module="pytest",
        args=["-q", "-p", "no:cacheprovider"],
        opened={"read": list(files)},
        outcome=Outcome(status=Status.EXIT, exit_code=1),
        signature=Signature(kind="exit", type="exit 1", message="assert <n> != <n>"),
    )
    printed = f"FAILED tests/test_x.py::{test} - assert 2 != 2\n1 failed\n"
    Path(run.findings.baseline[0].outcome.folder, "stdout.txt").write_text(printed, encoding="utf-8")
    made = run.bundle()
    python = str(run.findings.environment["executable"])
    run.home.rename(tmp_path / "away")
    done = rerun(made.path, python, tmp_path / "out")
    assert done.returncode == code, done.stdout
    assert (
        ("MATCH: exit 1" in done.stdout) if code == 0 else ("got tests/test_x.py::test_a[2]" in done.stdout)
    )


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (
            "import traceback\ntry:\n    raise ValueError('wrong number 9')\n"
            "except ValueError:\n    traceback.print_exc()\n    print('done')\n    exit(True)\n",
            0,
        ),
        (
            "import unittest\nclass T(unittest.TestCase):\n"
            "    def test(self):\n        raise ValueError('wrong number 9')\nunittest.main()\n",
            0,
        ),
        (
            "import traceback\ntry:\n    raise ValueError('something else')\n"
            "except ValueError:\n    traceback.print_exc()\n    exit(1)\n",
            1,
        ),
        ("print('ValueError, wrong number 9')\nexit(1)\n", 1),
    ],
    ids=["printed", "unittest", "another message", "nothing printed"],
)
def test_an_exception_that_is_printed_before_the_program_exits(
    tmp_path: Path, script: str, code: int
) -> None:
    """The plain run of such a program looks like one that the exception ended."""
    exits = Signature(kind="exit", type="exit 1", message="True")
    run = Recorded(tmp_path, {"main.py": script}, opened={"read": []}, signature=exits)
    made = run.bundle()
    done = rerun(made.path, str(run.findings.environment["executable"]), tmp_path / "out")
    assert done.returncode == code, done.stdout
    assert ("MATCH: exit 1" if code == 0 else "expected it to print ValueError: ") in done.stdout


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import no_such_package.sub\n", "has no no_such_package, which the program needs"),
        ("print('E   ModuleNotFoundError: No module named gone')\nexit(4)\n", "has no gone, which"),
        ("import helper\n", "MISMATCH: "),
        ("import json.none\n", "MISMATCH: "),
        ("print('ModuleNotFoundError: No module named gone')\n", "MISMATCH: "),
    ],
    ids=["imported", "under pytest", "packed", "the interpreter has it", "only printed"],
)
def test_a_package_that_is_missing_is_no_mismatch(tmp_path: Path, script: str, words: str) -> None:
    run = Recorded(tmp_path, {"main.py": script, "helper.py": "import helper.deep\n"}, opened={"read": []})
    made = run.bundle()
    done = rerun(made.path, str(run.findings.environment["executable"]), tmp_path / "out")
    assert words in done.stdout
    assert done.returncode == (1 if words.startswith("MISMATCH") else 2)


def test_what_does_not_fit_is_named_with_its_place_and_asked_for(tmp_path: Path) -> None:
    noise = os.urandom(900_000)
    script = "import pathlib\nn = len(pathlib.Path('big.bin').read_bytes())\nassert n == 900_000, n\n" + FAILS
    run = Recorded(tmp_path, {"main.py": script, "big.bin": noise}, opened={"read": ["big.bin"]})
    made = run.bundle(limit_bytes=400_000)
    assert made.missing == (("original/big.bin", run.home / "big.bin"),)
    assert made.size <= 400_000
    python = str(run.findings.environment["executable"])
    done = rerun(made.path, python, tmp_path / "out")
    assert done.returncode == 2
    assert "original/big.bin (900,000 bytes) is not in this bundle: put it there" in done.stdout
    assert "original/big.bin" in (tmp_path / "out/README.md").read_text(encoding="utf-8")
    shutil.copy(run.home / "big.bin", tmp_path / "out/original/big.bin")
    assert rerun(made.path, python, tmp_path / "out").returncode == 0


def test_a_bundle_that_leads_out_of_its_folder_is_not_run(tmp_path: Path) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS}, opened={"read": []})
    made = run.bundle()
    extract_bundle(made.path, tmp_path / "out")
    expected = json.loads((tmp_path / "out/expected.json").read_text(encoding="utf-8"))
    expected["run"]["files"] = [["repro.py", "../../evil.py"]]
    (tmp_path / "out/expected.json").write_text(json.dumps(expected), encoding="utf-8")
    done = rerun(made.path, str(run.findings.environment["executable"]), tmp_path / "out")
    assert done.returncode != 0
    assert "leads out of the folder" in done.stderr


def test_a_bundle_of_an_older_lab_still_runs(tmp_path: Path) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS}, opened={"read": []})
    made = run.bundle()
    extract_bundle(made.path, tmp_path / "out")
    expected = json.loads((tmp_path / "out/expected.json").read_text(encoding="utf-8"))
    for key in ("run", "missing", "tests", "test"):
        del expected[key]
    (tmp_path / "out/expected.json").write_text(json.dumps(expected), encoding="utf-8")
    done = rerun(made.path, str(run.findings.environment["executable"]), tmp_path / "out")
    assert done.returncode == 0, done.stdout


def test_what_steered_torch_steers_the_run_again(tmp_path: Path) -> None:
    script = "import os\nassert os.environ['TORCH_COMPILE_DISABLE_X'] == '3'\n" + FAILS
    run = Recorded(tmp_path, {"main.py": script}, opened={"read": []})
    run.findings.environment["variables"] = {
        "TORCH_COMPILE_DISABLE_X": "3",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/x",
        "TORCH_HOME": "models",
    }
    made = run.bundle()
    assert rerun(made.path, str(run.findings.environment["executable"]), tmp_path / "out").returncode == 0
    expected = json.loads((tmp_path / "out/expected.json").read_text(encoding="utf-8"))
    assert expected["environment"] == {"TORCH_COMPILE_DISABLE_X": "3"}


# -- the limits of verify are the writer's -------------------------------------------------------

ODD = ["a\nb.txt", "c:d.txt", "back\\slash.txt", "x" * 250 + ".txt", "q?.txt", "tab\t.txt", "star*.txt"]


def test_ten_thousand_files_and_odd_names_are_cut_by_the_plan(tmp_path: Path) -> None:
    script = "import os\nassert len(os.listdir('data')) >= 500\n" + FAILS
    many = [f"data/{n:05d}.txt" for n in range(10_000)]
    files: dict[str, str | bytes] = {"main.py": script, **dict.fromkeys(many, "1")}
    files |= {f"odd/{name}": "1" for name in ODD}
    opened = {"read": [*many, *(f"odd/{name}" for name in ODD)]}
    run = Recorded(tmp_path, files, opened=opened)
    surrogate = os.fsdecode(b"odd/\xff.txt")
    (run.home / surrogate).write_text("1")
    run.findings.baseline[0].outcome.facts["opened"]["read"].append(str(run.home / surrogate))
    made = run.bundle()
    manifest = check_bundle(made.path)
    assert len(made.files) <= 5_000
    assert not [name for name in made.files if name.startswith("original/odd/")]
    assert "original/main.py" in made.files
    reasons = {row["reason"] for row in manifest.dropped}
    assert any("no more than 5,000 files" in reason for reason in reasons)
    assert any("a name that a bundle cannot hold" in reason for reason in reasons)


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a//b", "a/../b", "C:/x", "a\\b", "\udcff", "a/" * 70 + "b", "n" * 300]
)
def test_no_entry_that_verify_refuses_is_written(name: str) -> None:
    kept, dropped = choose([Entry(name=name, data=b"1", rank=1), Entry(name="ok", data=b"1", rank=1)], 10_000)
    assert [packed.entry.name for packed in kept] == ["ok"]
    assert "a name that a bundle cannot hold" in dropped[0].reason


def test_a_file_and_a_folder_of_one_name(tmp_path: Path) -> None:
    entries = [
        Entry(name=name, data=b"1", rank=rank) for rank, name in enumerate(["a/b", "A", "a/b/c", "a/B"])
    ]
    kept, dropped = choose(entries, 10_000)
    assert [packed.entry.name for packed in kept] == ["a/b"]
    assert len(dropped) == 3


# -- run once before it is handed out ------------------------------------------------------------


def test_it_is_run_once_and_says_so(tmp_path: Path) -> None:
    run = full(tmp_path)
    made, told = run.write_checked_bundle()
    assert (told.result, told.words) == ("match", "run again from a clean folder: same failure")
    with zipfile.ZipFile(made.path) as archive:
        assert told.words in archive.read("README.md").decode()
    first = made.sha256
    again, kept = bundle_check.write_checked_bundle(
        run.findings, run.run_dir, run.root / "bundle.zip", verify=False
    )
    assert (kept.result, again.sha256) == ("match", first)  # the same files: the word on them still holds
    (run.home / "conf/cfg.json").write_text('{"n": 8}')
    again, kept = bundle_check.write_checked_bundle(
        run.findings, run.run_dir, run.root / "bundle.zip", verify=False
    )
    assert (kept.result, again.sha256) == ("match", first)  # an earlier run is only read again
    _, changed = bundle_check.write_checked_bundle(
        run.findings, run.run_dir, run.root / "bundle.zip", verify=False, fresh=True
    )
    assert (changed.result, changed.words) == ("not_run", "not run again: you did not ask for it")


def test_what_no_run_noted_is_found_by_running_it(tmp_path: Path) -> None:
    """A file that is only looked for: with all of the folder it fails as recorded."""
    script = "import pathlib\nif pathlib.Path(__file__).with_name('flag').exists():\n    " + FAILS
    run = Recorded(tmp_path, {"main.py": script, "flag": ""}, opened={"read": ["main.py"]})
    made, told = run.write_checked_bundle()
    assert told.result == "match"
    assert "original/flag" in made.files
    again, kept = bundle_check.write_checked_bundle(
        run.findings, run.run_dir, run.root / "bundle.zip", verify=False
    )
    assert (kept.result, again.sha256) == ("match", made.sha256)


@pytest.mark.parametrize("helper", ["helper.py", "lost.py"])
def test_a_repro_that_fails_otherwise_is_not_what_is_run_again(tmp_path: Path, helper: str) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS}, opened={"read": ["main.py"]})
    place = run.run_dir / "repro" / "script"
    write(
        place,
        {"repro.py": "from helper import N\nraise ValueError(f'wrong number {N}')\n", helper: "N = 7\n"},
    )
    run.findings.repro = Repro(
        kind="script", script=str(place / "repro.py"), verified=True, proof=ReproProof(plain="exit 1")
    )
    made, told = run.write_checked_bundle()
    assert told.result == "match"
    assert made.reduced is (helper == "helper.py")
    assert "reduced/script/repro.py" not in made.files
    lost = "the reduced script is not offered: run again from a clean folder: NOT the same failure (expected "
    lost += "ValueError: wrong number <n> got ModuleNotFoundError: No module named 'helper')"
    assert run.findings.repro.why_not == ("" if made.reduced else lost)
    with zipfile.ZipFile(made.path) as archive:
        assert ("from helper import" in archive.read("ISSUE.md").decode()) is made.reduced


def test_a_difference_is_said_and_shipped(tmp_path: Path) -> None:
    run = Recorded(tmp_path, {"main.py": "raise KeyError('other')\n"}, opened={"read": ["main.py"]})
    made, told = run.write_checked_bundle()
    assert told.result == "mismatch"
    assert "NOT the same failure (expected ValueError: wrong number <n>" in told.words
    with zipfile.ZipFile(made.path) as archive:
        assert "NOT the same failure" in archive.read("README.md").decode()


def test_a_file_of_the_projects_folder_that_is_opened_by_its_path_is_missed(tmp_path: Path) -> None:
    secret = tmp_path / "proj" / "keys" / "a.pem"
    script = f"assert open({str(secret)!r}).read() == 'x'\n" + FAILS
    run = Recorded(tmp_path, {"main.py": script, "keys/a.pem": "x"}, opened={"read": ["keys/a.pem"]})
    made, told = run.write_checked_bundle()
    if told.result == "match":
        pytest.skip("no mount is allowed here, so the project's folder cannot be hidden")
    assert "FileNotFoundError" in told.words
    assert [one.reason for one in made.apart] == ["secret, by its name"]
    assert secret.read_text() == "x"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "passes"}, "not run again: nothing fails"),
        ({"environment": {"provider": "docker"}}, "not run again: it was recorded in a container"),
        ({"environment": {"executable": "/no/python"}}, "not run again: the interpreter that ran it is gone"),
    ],
)
def test_why_it_is_not_run(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS}, opened={"read": []})
    run.findings = replace(run.findings, **change)
    _, told = run.write_checked_bundle()
    assert (told.result, told.words) == ("not_run", words)


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS}, opened={"read": []})
    shutil.rmtree(tmp_path / "python" / "site")
    python = Path(str(run.findings.environment["executable"]))
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    _, told = run.write_checked_bundle()
    assert told.result == "not_run"
    assert told.words.startswith("could not be run again (exit code 2): ")
    assert "has no torch" in told.words


@pytest.mark.parametrize(
    ("script", "rate", "result", "words"),
    [
        (FAILS, 0.5, "match", "same failure in try 1 (it fails in 50% of its runs)"),
        (
            "pass\n",
            0.5,
            "mismatch",
            "0 of 7 tries failed; at a failure rate of 50% that happens by chance in 1%",
        ),
    ],
)
def test_one_that_fails_now_and_then(
    tmp_path: Path, script: str, rate: float, result: str, words: str
) -> None:
    run = Recorded(tmp_path, {"main.py": script}, opened={"read": []})
    run.findings.failure_rate = rate
    _, told = run.write_checked_bundle()
    assert told.result == result
    assert words in told.words


def test_a_hang_and_a_difference_by_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_check, "PATIENCE_S", 1.0)
    hang = Recorded(
        tmp_path / "a",
        {"main.py": "import time\ntime.sleep(600)\n"},
        opened={"read": []},
        outcome=Outcome(status=Status.TIMEOUT, seconds=300.0),
        signature=Signature(kind="timeout"),
    )
    made, told = hang.write_checked_bundle()
    assert told.words == "run again from a clean folder: still running after 1 s, as recorded"
    with zipfile.ZipFile(made.path) as archive:
        assert (
            json.loads(archive.read("expected.json"))["timeout_s"] == 300.0
        )  # a reader's machine is given more
    design = Recorded(tmp_path / "b", {"main.py": FAILS}, opened={"read": []})
    design.findings.verdict = "by_design"
    assert (
        design.write_checked_bundle()[1].words
        == "run again from a clean folder: it differs in the same way, by design"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"file": None, "path": "/etc/passwd", "size": 3},
        {"file": "../../../proj/private.txt"},
        {"file": "link"},
        {"name": "../../evil"},
        {"file": 3},
        {"size": "x", "file": None},
    ],
)
def test_a_strangers_run_gets_no_file_of_the_reader(tmp_path: Path, change: dict[str, Any]) -> None:
    files = {"main.py": FAILS, "a.txt": "kept", "private.txt": "the reader's own"}
    run = Recorded(tmp_path, files, opened={"read": ["a.txt"]})
    run.project()
    table = json.loads((run.run_dir / "project.json").read_text(encoding="utf-8"))
    (run.run_dir / "project" / "link").symlink_to(run.home / "private.txt")
    for row in table["members"]:
        if row["name"] == "a.txt":
            row.update(change)
    (run.run_dir / "project.json").write_text(json.dumps(table), encoding="utf-8")
    made, _ = bundle_check.write_checked_bundle(
        run.findings, run.run_dir, run.root / "bundle.zip", verify=False
    )
    check_bundle(made.path)
    with zipfile.ZipFile(made.path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            assert b"the reader's own" not in data and b"root:" not in data, name


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 5_000, '{"script": 3}', '{"members": 1}'])
def test_a_damaged_copy_leaves_the_script(tmp_path: Path, text: str) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS, "a.txt": ""}, opened={"read": ["a.txt"]})
    run.project()
    (run.run_dir / "project.json").write_text(text, encoding="utf-8")
    assert names(project_of(run.findings, run.run_dir)) == {"main.py": "script"}


def test_the_issue_tells_the_environment_as_torch_does(tmp_path: Path) -> None:
    run = Recorded(tmp_path, {"main.py": FAILS}, opened={"read": []})
    text = "PyTorch version: 2.14.1+cu130\nIs debug build: False\n\nOS: Debian\nVersions of libraries:\n"
    run.findings.environment |= {
        "collect_env": text + "[pip3] torch==2.14.1",
        "cxx": "g++: g++ 12.2; OpenMP 4.5",
    }
    run.findings.environment["python"] = "3.11.7"
    issue = issue_markdown(run.findings, run.run_dir)
    versions = issue.partition("### Versions")[2]
    assert versions.strip().startswith("```\nPyTorch version: 2.14.1+cu130\nIs debug build: False")
    assert "[pip3] torch==2.14.1\n\ncxx: g++: g++ 12.2; OpenMP 4.5" in versions
    assert "executable" not in versions


def test_a_repro_is_taken_out_and_the_other_takes_its_place() -> None:
    other = {"kind": "graph", "script": "g.py", "verified": True}
    both = {
        "kind": "script",
        "script": "s.py",
        "graph": "g.py",
        "verified": True,
        "other": other,
        "notes": ["n"],
    }
    first = without(Repro.from_json(both), "script", "why").to_json()
    assert (first["kind"], first["script"], first["graph"], first["other"]) == ("graph", "g.py", "g.py", None)
    assert first["notes"] == ["n", "why"]
    second = without(Repro.from_json(both), "graph", "why").to_json()
    assert (second["kind"], second["script"], second["other"]) == ("script", "s.py", None)
    none = without(Repro.from_json(first), "graph", "gone").to_json()
    assert (none["script"], none["verified"], none["why_not"]) == (None, False, "gone")


# -- with a real torch ---------------------------------------------------------------------------


def bisected(root: Path, python: str, *words: str) -> dict[str, Any]:
    """The findings of ``accel-lab bisect`` in ``root/proj``, its bundle run once before it is handed out."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bisect"), "ACCEL_LAB_HOME": str(root / "home")}
    command = [
        sys.executable,
        "-m",
        "accel_lab",
        "bisect",
        "-q",
        "--json",
        "--no-minimize",
        "--no-workarounds",
        "--no-components",
    ]
    done = subprocess.run(
        [*command, "--verify", "--python", python, *words],
        cwd=root / "proj",
        env=env,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode in (1, 125), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


TRAIN = """
import argparse, pathlib, sys
import torch
from tiny import Config
from tiny.engine import fit

HERE = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("--config")
config = Config.load(HERE / parser.parse_args().config)
weights = torch.load(HERE / "weights.pt")
table = torch.from_file("table.bin", size=2, dtype=torch.uint8)
got = fit(config, float(sys.stdin.read()), weights)
if got != 7 + int(table.sum()):
    sys.exit(f"trained to {got}")
"""
CONFIG = """
import json


class Config:
    def __init__(self, steps):
        self.steps = steps

    @classmethod
    def load(cls, path):
        return cls(**json.loads(path.read_text()))
"""
ENGINE = """
import torch


@torch.compile(backend="eager")
def step(x):
    return x + 1


def fit(config, scale, x):
    for _ in range(config.steps):
        x = step(x)
    return scale * float(x.sum())
"""
TINY: dict[str, str | bytes] = {
    "train.py": TRAIN,
    "tiny/__init__.py": "from .config import Config\n",
    "tiny/config.py": CONFIG,
    "tiny/engine.py": ENGINE,
    "conf/cfg.json": '{"steps": 2}',
    "in.txt": "2.5",
    "table.bin": b"\1\2",
    "private.txt": "never opened",
}
CHECKS = """
import pytest, torch
from ragged import fill

@pytest.mark.parametrize("n", [3, 4])
def test_fill(n, expected):
    assert fill(torch.zeros(n)) == expected[str(n)]
"""
CONFTEST = """
import json, pathlib, pytest

@pytest.fixture
def expected():
    return json.loads(pathlib.Path(__file__).with_name("expected.json").read_text())
"""
FILL = """
import torch

@torch.compile(backend="eager")
def fill(x):
    return (x + 1).sum().item()
"""
RAGGED: dict[str, str | bytes] = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\ntestpaths = ["tests"]\n',
    "tests/conftest.py": CONFTEST,
    "tests/expected.json": '{"3": 3.0, "4": 5.0}',
    "tests/test_fill.py": CHECKS,
    "src/ragged/__init__.py": "from .ops import fill\n",
    "src/ragged/ops.py": FILL,
    "notes.txt": "never opened",
}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("files", "words", "unread"),
    [
        (TINY, ("--stdin", "in.txt", "train.py", "--config", "conf/cfg.json"), "private.txt"),
        (RAGGED, ("-m", "pytest", "-q"), "notes.txt"),
    ],
    ids=["a package with its data", "pytest"],
)
def test_the_bundle_of_a_project(
    tmp_path: Path,
    torch_python: str,
    files: Mapping[str, str | bytes],
    words: tuple[str, ...],
    unread: str,
) -> None:
    write(tmp_path / "proj", files)
    if files is TINY:
        save = f"import torch; torch.save(torch.ones(2), {str(tmp_path / 'proj/weights.pt')!r})"
        subprocess.run([torch_python, "-c", save], check=True, timeout=300)
    found = bisected(tmp_path, torch_python, *words)
    assert found["bundle_check"]["result"] == "match", found["bundle_check"]
    assert not [line for line in found["warnings"] if "bundle" in line]
    (tmp_path / "proj").rename(tmp_path / "away")
    bundle = Path(shutil.copy(found["bundle"], tmp_path / "b.zip"))
    shutil.rmtree(tmp_path / "home")
    done = rerun(bundle, torch_python, tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"original/{unread}" not in check_bundle(bundle).report
    assert not (tmp_path / "out/original" / unread).exists()
    issue = (tmp_path / "out/ISSUE.md").read_text(encoding="utf-8")
    versions = issue.partition("### Versions")[2]
    assert "PyTorch version: " in versions and "Python platform: " in versions and "\ncxx: " in versions
