"""Collects a bundle's sources: the script to re-run, the user's program, and the files that run them."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Findings
from accel_lab.reporting import repro_reader
from accel_lab.reporting.repro_reader import Reduced

from .expected import accelerator_of, portable_variables
from .kinds_of_files import is_secret
from .limits import MAX_FILE_BYTES, MAX_TOTAL_BYTES, name_problem, shown_name
from .project import Project
from .size_budget import Dropped, Entry, pack

#: Names at the top of the bundle that a user's module must not have.
RESERVED = frozenset({"repro.py", "rerun.py", "rerun.sh"})
#: Folder of the program as the user has it.
ORIGINAL = "original/"
#: The program's standard input.
STDIN = "stdin.txt"
#: Names, in lower case, that a data file next to repro.py must not have.
_TAKEN = RESERVED | {
    "artifacts",
    "environment.json",
    "expected.json",
    "issue.md",
    "ledger.json",
    "manifest.json",
    "min-good",
    "original",
    "readme.md",
    "reduced",
    "report.html",
    "report.json",
    STDIN,
}
#: Larger files are not read: no bundle has room for them.
MAX_DATA_BYTES = MAX_FILE_BYTES

_SHELL = """#!/bin/sh
# Runs repro.py again with PYTHON (default: python3) and says MATCH or MISMATCH. See rerun.py.
python="${PYTHON:-python3}"
if ! command -v "$python" >/dev/null 2>&1; then
    echo "$python is not a program: name a Python that has torch, as in PYTHON=/path/to/python ./rerun.sh"
    exit 2
fi
exec "$python" "$(dirname "$0")/rerun.py" "$@"
"""

_LAUNCH = '''"""Runs the program in {folder} as it was run{accelerator}.

rerun.py does so in a copy, and judges its end.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, {folder!r})
CWD = os.path.join(ROOT, {cwd!r})
COMMAND = [sys.executable, {command}]

env = {{**{variables!r}, **os.environ}}
paths = [os.path.join(ROOT, path) for path in {pythonpath!r}]
env["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [env.get("PYTHONPATH")])])
os.makedirs(CWD, exist_ok=True)
with open({stdin}, "rb") as stdin:
    code = subprocess.call(COMMAND, cwd=CWD, env=env, stdin=stdin)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
'''


@dataclass(frozen=True, kw_only=True)
class Data:
    """A file that is not the bundle's own text.

    ``needed``: repro.py cannot run without it. ``why`` is that of a member of the program's project
    (:mod:`.project`).
    """

    name: str
    data: bytes
    needed: bool = False
    why: str = ""


@dataclass(kw_only=True)
class Sources:
    """Texts by their name in the bundle, and what is run again.

    ``run_again`` is the reduced script that is repro.py, if there is one. ``names`` maps the paths of reduced
    scripts in the run's folder to their names in the bundle. ``run`` says what rerun.py runs: its ``files``
    are pairs of a file of the bundle and its path in the folder of the re-run.
    """

    files: dict[str, str] = field(default_factory=dict)
    data: list[Data] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    run_again: Reduced | None = None
    run: dict[str, Any] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    left_out: list[Dropped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def rerun_files() -> list[Entry]:
    """Returns the two files that run the bundle again; they do not depend on the run."""
    script = resources.files(__package__).joinpath("rerun.py.j2").read_text(encoding="utf-8")
    return [
        Entry(name="rerun.py", data=script.encode(), executable=True),
        Entry(name="rerun.sh", data=_SHELL.encode(), executable=True),
    ]


def repro_sources(
    findings: Findings,
    run_dir: Path,
    project: Project,
    *,
    script_text: str | None = None,
    room: int = MAX_DATA_BYTES,
    smallest: bool = True,
) -> Sources:
    """Returns repro.py and what it needs, the program itself, and the reduced scripts.

    The smallest verified script whose data files fit into ``room`` bytes becomes repro.py. Without one, or if
    not ``smallest``, the program itself is run again.
    """
    found = Sources()
    _add_reduced(found, findings, run_dir, room, smallest=smallest)
    if found.run_again is not None:
        files = [["repro.py", "repro.py"], *([file.name, file.name] for file in found.data if file.needed)]
        found.run = {"script": "repro.py", "module": None, "cwd": "", "pythonpath": [], "files": files}
        # A graph's script calls the compiled functions itself; a reduced script still takes the user's
        # arguments.
        found.args = project.args if found.run_again.kind == "script" else ()
    _add_project(found, findings, project, script_text)
    reads = found.run_again is None or found.run_again.kind == "script"
    found.run["stdin"] = STDIN if reads and project.stdin is not None else ""
    if found.run["stdin"] and project.stdin is not None:
        found.data.append(Data(name=STDIN, data=_bytes(project.stdin), why="argument"))
    return found


def _add_project(found: Sources, findings: Findings, project: Project, script_text: str | None) -> None:
    """Adds the user's program in ``original/`` and, if it is what is run again, its launcher."""
    runs = found.run_again is None
    files: list[list[str]] = []
    left = MAX_TOTAL_BYTES // 2
    for member in sorted(project.members, key=lambda m: (m.why != "script", not m.needed, m.size)):
        name = ORIGINAL + member.name
        left -= member.size
        problem = name_problem(name)
        if problem or not member.here or member.size > MAX_FILE_BYTES or left < 0:
            reason = f"a name that a bundle cannot hold: {problem}" if problem else "too big for a bundle"
            found.left_out.append(Dropped(name=shown_name(name), size=member.size, reason=reason))
        elif member.why == "script":
            text = script_text if script_text is not None else _portable(decoded(member.path), findings)
            found.files[name] = text
            if not text and runs:
                found.warnings.append(f"the script is gone or empty: {member.path.name}")
        elif member.name.endswith(".py"):
            found.data.append(Data(name=name, data=decoded(member.path).encode("utf-8"), why=member.why))
        else:
            found.data.append(Data(name=name, data=_bytes(member.path), why=member.why))
        if not problem:
            files.append([name, member.name])
    if not runs:
        return
    found.args = project.args
    on = accelerator_of(findings)
    if project.is_single_script and files and not on:
        found.files["repro.py"] = found.files[ORIGINAL + str(project.script)]
        files = [["repro.py", str(project.script)]]
    else:
        launch = _launch(project, on, portable_variables(findings) if on else {})
        found.files["repro.py"] = script_text if project.script is None and script_text else launch
    found.run = {
        "script": project.script,
        "module": project.module,
        "cwd": project.cwd,
        "pythonpath": list(project.pythonpath),
        "files": files,
    }


def _launch(project: Project, accelerator: str, variables: dict[str, str]) -> str:
    """Returns repro.py for a program of several files, or one that rerun.py runs on an accelerator."""
    script = project.script
    program = repr(project.module) if script is None else f"os.path.join(ROOT, {script!r})"
    if accelerator:
        kind = "module" if script is None else "script"
        words = ["--child", "", "as-is", kind]
        command = ["os.path.join(HERE, 'rerun.py')", *map(repr, words), program, repr(accelerator)]
    else:
        command = [program] if script is not None else [repr("-m"), program]
    command += [repr(arg) for arg in project.args]
    return _LAUNCH.format(
        folder=ORIGINAL.rstrip("/"),
        cwd=project.cwd,
        command=", ".join(command),
        pythonpath=list(project.pythonpath),
        accelerator=f"; it runs on the accelerator {accelerator}" if accelerator else "",
        variables=variables,
        stdin=f"os.path.join(HERE, {STDIN!r})" if project.stdin is not None else "os.devnull",
    )


def _portable(text: str, findings: Findings) -> str:
    """Returns the text such that a script made from a notebook imports modules from its own folder."""
    origin = findings.program.origin
    if not origin:
        return text
    return text.replace(f"; sys.path[0] = {str(Path(origin).resolve().parent)!r}", "", 1)


def _add_reduced(found: Sources, findings: Findings, run_dir: Path, room: int, *, smallest: bool) -> None:
    """Adds the reduced scripts, each with the files that it reads, and the neighbour that passes."""
    both = (repro_reader.repro_of(findings, run_dir), repro_reader.other_of(findings, run_dir))
    for script in both:
        if script is None or not script.text.strip():
            continue
        kind = script.kind or "smallest"
        if script.verified and found.run_again is None and smallest:
            data, reason = _data_of(found, script.path, run_dir, room, prefix="", needed=True)
            if not reason:
                found.run_again = script
                found.names[script.path] = "repro.py"
                found.files["repro.py"] = script.text
                found.data += data
                continue
            found.warnings.append(f"repro.py is not the reduced {kind}: {reason}")
        _add_beside(found, script.path, script.text, run_dir, room, f"reduced/{kind}/")
    good = repro_reader.min_good_of(findings, run_dir)
    if good is not None:
        _add_beside(found, good[0], good[1], run_dir, room, "min-good/")


def _add_beside(found: Sources, said: str, text: str, run_dir: Path, room: int, prefix: str) -> None:
    """Adds a script for reading only, in its own folder with the files that it reads."""
    found.files[f"{prefix}repro.py"] = text
    found.names[said] = f"{prefix}repro.py"
    data, _ = _data_of(found, said, run_dir, room, prefix=prefix, needed=False)
    found.data += data


def _data_of(
    found: Sources, said: str, run_dir: Path, room: int, *, prefix: str, needed: bool
) -> tuple[list[Data], str]:
    """Returns the files of a script's folder, and why not all of them fit into the bundle."""
    data: list[Data] = []
    problem = ""
    for name, path in repro_reader.data_files(said, run_dir):
        size = path.stat().st_size
        if name_problem(prefix + name):
            problem = problem or "a file beside it has a name that a bundle cannot hold"
            continue
        if is_secret(Path(name)):
            problem = problem or f"{name} beside it holds secrets, by its name"
            continue
        if needed and name.partition("/")[0].casefold() in _TAKEN:
            problem = problem or f"{name} beside it has the name of a file of the bundle's"
            continue
        content = path.read_bytes() if size <= MAX_DATA_BYTES else b""
        room -= pack(Entry(name=name, data=content)).size if size <= MAX_DATA_BYTES else size
        if room < 0:
            reason = f"{size:,} bytes do not fit: the script beside it cannot run without this file"
            if not needed:
                found.left_out.append(Dropped(name=prefix + name, size=size, reason=reason))
            problem = problem or f"{name} beside it has {size:,} bytes, which do not fit"
            continue
        data.append(Data(name=prefix + name, data=content, needed=needed))
    return data, problem


def decoded(path: Path) -> str:
    """Returns a source as text, by its own encoding cookie; undecodable bytes are replaced."""
    data = _bytes(path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        encoding, text = "utf-8", data.decode("utf-8", "replace")
    if encoding not in ("utf-8", "utf-8-sig", "ascii"):
        # The bundle is UTF-8, so another encoding cookie would be wrong there.
        text = "\n".join(
            line.replace("coding", "was-in", 1) if number < 2 and line.lstrip().startswith("#") else line
            for number, line in enumerate(text.split("\n"))
        )
    return text


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
