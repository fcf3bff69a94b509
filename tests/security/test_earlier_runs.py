"""Runs that are read again: no program is started, nothing outside their folder is read; names are bytes."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from accel_lab import session
from accel_lab.cli import job, main, streams
from accel_lab.cli.commands import run_command
from accel_lab.cli.progress import Progress
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.process_exit import ProcessExit
from accel_lab.core.text import control, for_terminal, printable
from accel_lab.execution import builds, prober
from accel_lab.execution.run_folder import folder_views
from accel_lab.execution.run_folder.workspace import Workspace

SOURCE = Path(streams.__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b5m\u202e\u200b\ufeff\u2028 \ud800 \udcff"
#: What must not reach a terminal.
CONTROLS = frozenset(
    [*map(chr, {*range(32), *range(127, 160)} - {9, 10}), *"\u202e\u200b\ufeff\u2028\u2066\u061c", "\ud800"]
)


def answer(
    command: list[str], *, cwd: Path, stdout: Path, stderr: Path, env: Mapping[str, str], **rest: Any
) -> ProcessExit:
    """Stands in for all processes of a run: the script raises whatever is asked."""
    message = f"boom {EVIL}"
    stdout.write_bytes(b"")
    stderr.write_bytes(
        b"Traceback (most recent call last):\nValueError: " + message.encode("utf-8", "replace")
    )
    if "once" in command:
        row = {"raised": {"type": "ValueError", "message": message}, "torch": "2.14.1", "python": "3.11.7"}
        (stdout.parent / "result.json").write_text(json.dumps(row))
    return ProcessExit(exit_code=1, seconds=0.1)


def facts(python: str, folder: Path) -> builds.Build:
    return builds.Build(python=python, torch="2.14.1", facts={"torch": "2.14.1", "python": "3.11.7"})


def lab(capsys: Capture, *words: str) -> tuple[int, str, list[str]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main.main(list(words))
    said = capsys.readouterr()
    assert not CONTROLS & set(said.out + said.err), ascii(said.out + said.err)
    return int(ended.value.code or 0), said.out, said.err.splitlines()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of a script in a folder, and with an argument, that are no UTF-8."""
    base = tmp_path_factory.mktemp("finished")
    place = Path(os.fsdecode(os.fsencode(base) + b"/d\xfe"))
    place.mkdir()
    script = place / os.fsdecode(b"s\xff.py")
    script.write_text("raise ValueError\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "inspect_build", facts)
        patch.setattr(session, "Prober", functools.partial(prober.Prober, runner=answer))
        patch.setattr(folder_views.FolderViews, "_can_mount", lambda self, folders: False)
        options = [
            "--no-minimize",
            "--no-workarounds",
            "--cold",
            "--quiet",
            "--check",
            "exit 1",
            "--out",
            str(base / "runs"),
        ]
        with pytest.raises(SystemExit) as ended:
            main.main(["bisect", *options, str(script), os.fsdecode(b"a\xff"), "two words"])
    assert ended.value.code in (1, 125)
    (folder,) = (base / "runs").iterdir()
    return folder


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, for a test to change."""
    folder = tmp_path / "runs" / finished.name
    shutil.copytree(finished, folder, symlinks=True)
    return folder


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Any start of a program, by whatever means, is noted and fails."""
    started: list[str] = []

    def refuse(*words: Any, **more: Any) -> Any:
        started.append(repr(words)[:200])
        raise AssertionError(f"a program was started: {words!r}")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen", "execv", "execve"):
        monkeypatch.setattr(os, name, refuse)
    yield started
    assert started == []


@pytest.mark.parametrize("command", ["report", "bundle"])
def test_an_earlier_run_is_read_without_a_program(
    command: str, made: Path, nothing_starts: list[str], capsys: Capture
) -> None:
    code, _, err = lab(capsys, command, str(made))
    assert code == 0, err
    assert (made / "report.html").is_file() and (made / "bundle.zip").is_file()
    for file in ("report.json", "request.json"):
        json.loads((made / file).read_text("utf-8"))
    assert b"\\ud8" not in (made / "report.json").read_bytes().replace(b"\\\\ud8", b"")  # strict readers


def emptied(folder: Path) -> None:
    (folder / "journal.jsonl").write_text("")


def unchecked(folder: Path) -> None:
    for path in folder.glob("probes/*/checked.json"):
        path.unlink()


def groundless(folder: Path) -> None:
    (folder / "ground.json").unlink()


def ground(value: Any) -> Callable[[Path], None]:
    return lambda folder: (folder / "ground.json").write_text(json.dumps(value)) and None


@pytest.mark.parametrize("command", ["report", "bundle"])
@pytest.mark.parametrize("edit", [emptied, unchecked, groundless, ground([]), ground({"python": 3})])
def test_a_missing_answer_is_an_error(
    edit: Callable[[Path], None], command: str, made: Path, nothing_starts: list[str], capsys: Capture
) -> None:
    edit(made)
    code, _, err = lab(capsys, command, str(made))
    assert code == 3 and len(err) == 1 and "nothing is run" in err[0]


def test_an_interpreter_that_a_run_names_is_not_run(made: Path, tmp_path: Path, capsys: Capture) -> None:
    """An emptied journal, and another interpreter: for real, with nothing in the way of a program."""
    trap, sprung = tmp_path / "python", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n")
    trap.chmod(0o755)
    emptied(made)
    for name in ("ground.json", "request.json"):
        row = json.loads((made / name).read_text())
        (made / name).write_text(json.dumps({**row, "python": str(trap), "check": f"touch {sprung}"}))
    for command in ("report", "bundle"):
        assert lab(capsys, command, str(made))[0] == 3
    assert not sprung.exists()


@pytest.mark.parametrize("name", ["request.json", "report.json"])
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", "[" * 100_000, '{"program": 3, "baseline": []}', "\ud800"]
)
def test_a_damaged_run_is_one_line(
    name: str, text: str, made: Path, nothing_starts: list[str], capsys: Capture
) -> None:
    (made / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    code, _, err = lab(capsys, "report", str(made))
    assert code == 2 and len(err) == 1


def test_nothing_outside_the_runs_folder_is_read(
    made: Path, tmp_path: Path, nothing_starts: list[str], capsys: Capture
) -> None:
    """A stranger's run names files of the reader's: they are not in the bundle that is made of it."""
    secret = tmp_path / "probes-of-mine"
    (secret / "artifacts").mkdir(parents=True)
    for path in (secret / "artifacts" / "key.txt", secret / "stderr.txt", secret / "stdout.txt"):
        path.write_text("swordfish")
    rows = [json.loads(line) for line in (made / "journal.jsonl").read_text().splitlines()]
    for row in rows:
        if "outcome" in row:
            row["outcome"]["folder"] = str(secret)
    (made / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = json.loads((made / "report.json").read_text())
    told["repro"] = {"script": str(secret / "stdout.txt"), "verified": True, "kind": "graph"}
    (made / "report.json").write_text(json.dumps(told))
    lab(capsys, "bundle", str(made))
    with zipfile.ZipFile(made / "bundle.zip") as archive:
        assert not any(b"swordfish" in archive.read(name) for name in archive.namelist())
    assert "swordfish" not in (made / "report.html").read_text()


def test_what_is_listed_is_safe(made: Path, capsys: Capture) -> None:
    row = {"verdict": EVIL, "culprit": {"stage": EVIL}}
    (made / "report.json").write_text(json.dumps(row))
    code, out, _ = lab(capsys, "list", "--out", str(made.parent))
    assert code == 0 and made.name in out
    code, out, _ = lab(capsys, "list", "--json", "--out", str(made.parent))
    assert json.loads(out)[0]["verdict"]
    (made / "report.json").write_text(json.dumps({"verdict": [1], "culprit": "x"}))
    assert lab(capsys, "list", "--out", str(made.parent))[0] == 0


# -- what is printed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ✓ … é 漢", "plain ✓ … é 漢"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1H\x1b[?25l", ""),
        ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link", "xlink"),
        ("\x1b]0;not closed\nnext", "\\u001b]0;not closed\nnext"),
        ("\x1b", "\\u001b"),
        ("\x1bPq#0\x1b\\", "\\u001bPq#0\\u001b\\"),
        ("\x9b31m", "\\u009b31m"),
        ("\x00\x07\x08\x7f", "\\u0000\\u0007\\u0008\\u007f"),
        ("\u202egpj.exe\u2066", "\\u202egpj.exe\\u2066"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\ud800\udcff", "\\ud800\\udcff"),
        ("\U000e0041", "\\udb40\\udc41"),
    ],
)
def test_what_a_stranger_prints(text: str, shown: str) -> None:
    assert printable(text) == shown == for_terminal(text)


def test_only_the_labs_own_controls_work() -> None:
    green = control("\x1b[32m")
    assert for_terminal(f"{green}ok{control(chr(27) + '[0m')}") == "\x1b[32mok\x1b[0m"
    seal = green[1 : -len("<\x1b[32m>")]
    forged = f"\x1b{'0' * len(seal)}<\x1b[32m>"
    assert "\x1b" not in for_terminal(forged)


@pytest.mark.parametrize(
    "words",
    [
        ("bisect", f"no{EVIL}.py"),
        ("run", f"no{EVIL}.py"),
        ("check", f"no{EVIL}.py"),
        ("minimize", f"no{EVIL}.json"),
        ("report", f"no{EVIL}"),
        ("clean", f"no{EVIL}"),
        ("verify", f"no{EVIL}"),
        ("bench", "--model", EVIL),
        ("env", "build", EVIL, "--provider", "local", "--pythons", f"/{EVIL}"),
        ("env", "prune", EVIL),
        (EVIL,),
        ("bisect", f"--{EVIL}"),
    ],
)
def test_errors_are_safe_to_print(words: tuple[str, ...], capsys: Capture) -> None:
    code, out, err = lab(capsys, *words)
    assert code in (2, 3) and not out and err


class Terminal(io.StringIO):
    """A stream that says of itself that it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("plain", [False, True])
def test_the_live_lines_are_safe(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script raises, what it is called, what a release says: only the lab's own controls work."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", streams.Guarded(terminal))
    monkeypatch.setenv("NO_COLOR", "1") if plain else monkeypatch.delenv("NO_COLOR", raising=False)
    progress = Progress(quiet=False)
    probe = Probe(program=Program(path=f"/x{EVIL}.py"), switches=(("only", EVIL),))
    raised = Raised(type="ValueError", message=EVIL)
    progress("start", probe, None)
    progress("end", probe, Outcome(status=Status.EXCEPTION, raised=raised))
    progress.smaller(EVIL, 3, "x = 1\n")
    progress.release("judged", EVIL, EVIL)
    progress.done()
    said = terminal.getvalue()
    own = ("\r", "\x1b[2K", *(() if plain else ("\x1b[31m", "\x1b[0m")))
    assert all(sequence in said for sequence in own)
    for sequence in own:
        said = said.replace(sequence, "")
    assert not CONTROLS & set(said), ascii(said)


def test_all_that_is_printed_passes_one_place() -> None:
    """No command goes around the guarded streams: to the real ones, to their bytes, or to a descriptor."""
    folder = Path(streams.__file__).parent
    around = re.compile(r"__std(?:out|err)__|\.buffer\b|os\.write\(|open\([12],")
    found = {path.name for path in folder.glob("*.py") if around.search(path.read_text("utf-8"))}
    assert found <= {"streams.py"} and not re.search(r"\.write\(.*buffer", Path(streams.__file__).read_text())


@pytest.mark.parametrize(("status", "code"), [(Status.REFUSED, 3), (Status.OK, 0), (Status.EXCEPTION, 1)])
def test_a_refused_run_is_the_labs_failure(
    status: Status, code: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = Raised(type="ValueError", message=EVIL) if status is Status.EXCEPTION else None
    outcome = Outcome(status=status, raised=raised, notes=(f"the lab failed {EVIL}",), folder=str(tmp_path))
    once = job.SingleRun(
        program=Program(path="x.py"),
        build=facts("py", tmp_path),
        workspace=Workspace(tmp_path, tmp_path),
        outcome=outcome,
    )
    monkeypatch.setattr(run_command, "run_once", lambda **words: once)
    assert lab(capsys, "run", "x.py")[0] == code
    found, out, _ = lab(capsys, "run", "--json", "x.py")
    assert found == code and json.loads(out)["status"] == status.value


@pytest.mark.torch
def test_a_real_script_whose_names_are_no_text(torch_python: str, tmp_path: Path) -> None:
    """Folder, script, argument, environment, output and message: each has bytes that are no UTF-8."""
    place = os.fsencode(tmp_path) + b"/d\xfe"
    os.mkdir(place)
    script = place + b"/s\xff.py"
    with open(script, "w") as stream:
        stream.write(
            "import os, sys, torch\n"
            "os.write(1, b'\\xff\\x1b[31m')\n"
            "assert os.environb[b'LAB_BYTES'] == b'\\xfe' and os.fsencode(sys.argv[1]) == b'a\\xff'\n"
            "raise ValueError('half \\ud800 and ' + sys.argv[1] + sys.argv[0])\n"
        )
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "accel_lab", "run", "--json", "--rung", "uncompiled"),
            *("--python", torch_python, "--out", str(tmp_path / "out"), script, b"a\xff"),
        ],
        capture_output=True,
        timeout=600,
        cwd=place,
        env={**os.environb, b"LAB_BYTES": b"\xfe", b"PYTHONPATH": os.fsencode(SOURCE)},
    )
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout.decode("utf-8"))
    assert told["raised"]["type"] == "ValueError"
    assert told["raised"]["message"].startswith("half \\ud800 and a\\udcff")
