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

from . import run_files
from .plan import Dropped, Entry

_MAX_FILES = 200
_MAX_BYTES = 2_000_000
#: Names at the top of the bundle that a module of the user's must not take.
RESERVED = frozenset({"repro.py", "rerun.py", "rerun.sh"})

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


@dataclass(kw_only=True)
class Sources:
    """Texts by their name in the bundle."""

    files: dict[str, str] = field(default_factory=dict)
    left_out: list[Dropped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def rerun_files() -> list[Entry]:
    """The two files that run the bundle again; neither knows anything of the run."""
    script = resources.files(__package__).joinpath("rerun.py.j2").read_text(encoding="utf-8")
    return [
        Entry(name="rerun.py", data=script.encode(), executable=True),
        Entry(name="rerun.sh", data=_SHELL.encode(), executable=True),
    ]


def repro_sources(findings: Findings, run_dir: Path, script_text: str | None) -> Sources:
    """repro.py, the original script, and the user's own modules that it imports."""
    found, program = Sources(), findings.program
    reduced = run_files.repro_text(findings, run_dir)
    if program.path is not None:
        path = Path(program.path)
        text = script_text if script_text is not None else decoded(path)
        if not text and not reduced:
            found.warnings.append(f"the script is gone or empty: {path.name}")
        name = path.name if path.suffix in (".py", ".pyw") else path.name + ".py"
        found.files[f"original/{name}"] = text
        found.files["repro.py"] = reduced or text
        if not reduced:
            _add_imports(found, text, path.parent)
    else:
        _add_module(found, program)
        if reduced or script_text is not None:
            found.files["repro.py"] = reduced or script_text or ""
    return found


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


def _add_imports(found: Sources, text: str, folder: Path) -> None:
    """The modules that a source imports and that lie beside it, and theirs in turn."""
    queue = _imported(text)
    seen: set[str] = set()
    while queue:
        name = queue.pop(0)
        if name in seen:
            continue
        seen.add(name)
        for path in _module_files(folder, name):
            entry = path.relative_to(folder).as_posix()
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
