"""The sources of a bundle: the script, the modules beside it that it imports, and what runs it again."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from accel_lab.core.findings import Findings
from accel_lab.core.probe import Program

from . import reduced
from .plan import SAFE_NAME, Dropped, Entry, pack
from .reduced import Reduced

_MAX_FILES = 200
_MAX_BYTES = 2_000_000
#: Names at the top of the bundle that a module of the user's must not take.
RESERVED = frozenset({"repro.py", "rerun.py", "rerun.sh"})
#: The folder of the script as the user wrote it.
ORIGINAL = "original/"
#: What a data file beside repro.py must not be called, in lower case.
_TAKEN = RESERVED | {
    "artifacts",
    "environment.json",
    "expected.json",
    "issue.md",
    "ledger.json",
    "manifest.json",
    "min-good",
    "original",
    "reduced",
    "report.html",
    "report.json",
}
#: More than this is not looked at: no bundle has room for it.
MAX_DATA_BYTES = 100_000_000

_SHELL = """#!/bin/sh
# Runs repro.py again with PYTHON (default: python3) and says MATCH or MISMATCH. See rerun.py.
python="${PYTHON:-python3}"
if ! command -v "$python" >/dev/null 2>&1; then
    echo "$python is no program: name a Python that has torch, as in PYTHON=/path/to/python ./rerun.sh"
    exit 2
fi
exec "$python" "$(dirname "$0")/rerun.py" "$@"
"""

_MODULE = '''"""Stands in for ``python -m {module}``."""
import os
import runpy
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.argv = [{module!r}, {args}]
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
'''


@dataclass(frozen=True, kw_only=True)
class Data:
    """A file that a reduced script reads. ``needed``: repro.py itself cannot run without it."""

    name: str
    data: bytes
    needed: bool


@dataclass(kw_only=True)
class Sources:
    """Texts by their name in the bundle.

    ``run_again`` is the reduced script that is repro.py, if one is; ``names`` are the bundle's names of
    the reduced scripts by the path that the run wrote.
    """

    files: dict[str, str] = field(default_factory=dict)
    data: list[Data] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    run_again: Reduced | None = None
    left_out: list[Dropped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def rerun_files() -> list[Entry]:
    """The two files that run the bundle again; neither knows anything of the run."""
    script = resources.files(__package__).joinpath("rerun.py.j2").read_text(encoding="utf-8")
    return [
        Entry(name="rerun.py", data=script.encode(), executable=True),
        Entry(name="rerun.sh", data=_SHELL.encode(), executable=True),
    ]


def repro_sources(
    findings: Findings, run_dir: Path, script_text: str | None, room: int = MAX_DATA_BYTES
) -> Sources:
    """repro.py, the original script, the user's own modules that it imports, and the reduced scripts.

    The smallest verified script whose data files fit into ``room`` bytes becomes repro.py, else the
    original does.
    """
    found, program = Sources(), findings.program
    _add_reduced(found, findings, run_dir, room)
    reduced_text = found.run_again.text if found.run_again is not None else ""
    if program.path is not None:
        path = Path(program.path)
        text = script_text if script_text is not None else decoded(path)
        if not text and not reduced_text:
            found.warnings.append(f"the script is gone or empty: {path.name}")
        name = path.name if path.suffix in (".py", ".pyw") else path.name + ".py"
        found.files[f"{ORIGINAL}{name}"] = text
        found.files["repro.py"] = reduced_text or text
        _add_imports(found, text, path.parent, ORIGINAL if reduced_text else "")
    else:
        _add_module(found, program)
        if reduced_text or script_text is not None:
            found.files["repro.py"] = reduced_text or script_text or ""
    return found


def _add_reduced(found: Sources, findings: Findings, run_dir: Path, room: int) -> None:
    """The reduced scripts, each with the files that it reads, and the neighbour that passes."""
    both = (reduced.repro_of(findings, run_dir), reduced.other_of(findings, run_dir))
    for script in both:
        if script is None or not script.text.strip():
            continue
        kind = script.kind or "smallest"
        if script.verified and found.run_again is None:
            data, reason = _data_of(found, script.path, run_dir, room, prefix="", needed=True)
            if not reason:
                found.run_again = script
                found.names[script.path] = "repro.py"
                found.data += data
                continue
            found.warnings.append(f"repro.py is not the reduced {kind}: {reason}")
        _add_beside(found, script.path, script.text, run_dir, room, f"reduced/{kind}/")
    good = reduced.min_good_of(findings, run_dir)
    if good is not None:
        _add_beside(found, good[0], good[1], run_dir, room, "min-good/")


def _add_beside(found: Sources, said: str, text: str, run_dir: Path, room: int, prefix: str) -> None:
    """A script that is there to be looked at, in a folder of its own with what it reads."""
    found.files[f"{prefix}repro.py"] = text
    found.names[said] = f"{prefix}repro.py"
    data, _ = _data_of(found, said, run_dir, room, prefix=prefix, needed=False)
    found.data += data


def _data_of(
    found: Sources, said: str, run_dir: Path, room: int, *, prefix: str, needed: bool
) -> tuple[list[Data], str]:
    """What lies beside a script; and in words why not all of it can lie beside it in the bundle."""
    data: list[Data] = []
    problem = ""
    for name, path in reduced.data_files(said, run_dir):
        size = path.stat().st_size
        if not SAFE_NAME.match(name):
            problem = problem or "a file beside it has a name that a bundle cannot hold"
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
    """A source as text, by its own encoding cookie; bytes that do not fit are replaced."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        encoding, text = "utf-8", data.decode("utf-8", "replace")
    if encoding not in ("utf-8", "utf-8-sig", "ascii"):
        # The bundle holds UTF-8, so a cookie that says otherwise would be wrong there.
        text = "\n".join(
            line.replace("coding", "was-in", 1) if number < 2 and line.lstrip().startswith("#") else line
            for number, line in enumerate(text.split("\n"))
        )
    return text


def _add_module(found: Sources, program: Program) -> None:
    """``python -m pytest test_x.py::case`` becomes a script that does so, with the named files beside it."""
    args = []
    for arg in program.args:
        name, sep, rest = arg.partition("::")
        path = Path(name)
        if path.suffix == ".py" and path.is_file() and path.name not in RESERVED:
            text = decoded(path)
            found.files[path.name] = text
            _add_imports(found, text, path.parent)
            # The re-run works in an empty folder: the file is named by where repro.py lies.
            args.append(path.name + sep + rest)
        else:
            args.append(arg)
    listed = ", ".join(
        f"os.path.join(HERE, {arg!r})" if arg.partition("::")[0] in found.files else repr(arg) for arg in args
    )
    found.files["repro.py"] = _MODULE.format(module=program.module or "", args=listed)


def _add_imports(found: Sources, text: str, folder: Path, prefix: str = "") -> None:
    """The modules that a source imports and that lie beside it, and theirs in turn."""
    queue = _imported(text)
    seen: set[str] = set()
    while queue:
        name = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        for path in _module_files(folder, name):
            entry = prefix + path.relative_to(folder).as_posix()
            if entry in RESERVED or entry in found.files:
                continue
            size = path.stat().st_size
            if len(found.files) >= _MAX_FILES or size > _MAX_BYTES:
                found.left_out.append(Dropped(name=entry, size=size, reason="too many or too large modules"))
                continue
            found.files[entry] = decoded(path)
            queue += _imported(found.files[entry])


def _module_files(folder: Path, name: str) -> list[Path]:
    """The files of a module or package of that name in the folder; links are left out."""
    single, package = folder / f"{name}.py", folder / name
    if package.is_dir() and not package.is_symlink() and (package / "__init__.py").is_file():
        return sorted(path for path in package.rglob("*.py") if path.is_file() and not path.is_symlink())
    return [single] if single.is_file() and not single.is_symlink() else []


def _imported(text: str) -> list[str]:
    """The top-level names that a source imports, in order."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.append(node.module.partition(".")[0])
    return [name for name in names if name.isidentifier()]
