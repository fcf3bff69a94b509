"""Copies the program's files into the run's folder when the run is made.

A later bundle of the run uses only this copy: the run's folder can be a stranger's, and the files that it
names elsewhere are the reader's own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Findings
from accel_lab.reporting import run_files

from .limits import MAX_FILE_BYTES, MAX_TOTAL_BYTES
from .project import ExternalFile, Member, Project, look

#: In the run's folder: the description of the project, and its files by number.
TABLE, FOLDER = "project.json", "project"
_STDIN = "stdin"
_MOST_ROWS = 50_000
_WHYS = ("script", "read", "imported", "argument", "listed", "beside")


def keep_project(findings: Findings, run_dir: Path, *, whole: bool = False) -> Project:
    """Copies the project of a run that was just made into its folder, as far as a bundle has room."""
    project = look(findings, run_dir, whole=whole)
    folder = run_dir / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows, left = [], MAX_TOTAL_BYTES
    members = sorted(project.members, key=lambda m: (m.why != "script", not m.needed, m.size))
    for number, member in enumerate(members):
        left -= member.size
        here = member.size <= MAX_FILE_BYTES and left >= 0 and _copied(member.path, folder / f"{number:05d}")
        row = {"name": member.name, "why": member.why, "size": member.size, "path": str(member.path)}
        rows.append({**row, "file": f"{number:05d}" if here else None})
    stdin = project.stdin is not None and _copied(project.stdin, folder / _STDIN)
    table = {key: value for key, value in vars(project).items() if key not in ("members", "apart", "stdin")}
    table |= {"members": rows, "apart": [vars(one) for one in project.apart], "stdin": stdin}
    (run_dir / TABLE).write_text(json.dumps(table, indent=1), encoding="utf-8")
    return project_of(findings, run_dir, whole=whole)


def project_of(findings: Findings, run_dir: Path, *, whole: bool = False) -> Project:
    """Returns a run's project from the copy in its folder; without one, only the script."""
    try:
        table = json.loads(run_files.read_text(run_dir / TABLE, 64_000_000).text)
        project = _read(table, run_dir / FOLDER)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _script_alone(findings)
    if not whole:
        project.members = [member for member in project.members if member.why != "beside"]
    return project


def _script_alone(findings: Findings) -> Project:
    program = findings.program
    project = Project(module=program.module, args=program.args)
    if program.path is not None:
        path = Path(program.path)
        project.script = path.name if path.suffix in (".py", ".pyw") else f"{path.name}.py"
        size = path.stat().st_size if path.is_file() else 0
        project.members = [Member(name=project.script, path=path, why="script", size=size, origin=path)]
    return project


def _read(table: dict[str, Any], folder: Path) -> Project:
    project = Project(
        script=_maybe(table["script"]),
        module=_maybe(table["module"]),
        args=tuple(map(_text, table["args"])),
        cwd=_text(table["cwd"]),
        pythonpath=tuple(map(_text, table["pythonpath"])),
        stdin=folder / _STDIN if table["stdin"] and _is_there(folder / _STDIN) else None,
        watched=table["watched"] is True,
    )
    for row in table["members"][:_MOST_ROWS]:
        path = folder / _text(row["file"]).replace("/", "_") if row["file"] is not None else folder
        here = row["file"] is not None and _is_there(path)
        size = path.stat().st_size if here else int(row["size"])
        why = row["why"] if row["why"] in _WHYS else "beside"
        name, origin = _text(row["name"]), Path(_text(row["path"]))
        project.members.append(Member(name=name, path=path, why=why, size=size, origin=origin, here=here))
    for row in table["apart"][:_MOST_ROWS]:
        apart = ExternalFile(path=_text(row["path"]), size=int(row["size"]), reason=_text(row["reason"]))
        project.apart.append(apart)
    project.members.sort(key=lambda member: member.name)
    return project


def _copied(source: Path, target: Path) -> bool:
    try:
        shutil.copyfile(source, target)
    except OSError:
        return False
    return True


def _is_there(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not path.parent.is_symlink()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _maybe(value: Any) -> str | None:
    return None if value is None else _text(value)
