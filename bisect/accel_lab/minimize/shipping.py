"""Finds the files that a reduced script needs, and makes a folder with only those to prove it in.

Candidates run in a folder of links to everything next to the user's script. The repro is handed out with
copies of the files that it opens, which a run reveals.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel_lab.core.probe import Probe, Program
from accel_lab.reduction.problem import Candidate
from accel_lab.search.lab import Lab

from .candidates import SCRIPT_NAME, write_program

#: Most bytes and files of a repro.
MAX_BYTES, MAX_FILES = 60_000_000, 400
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


def opened_by(lab: Lab, probe: Probe, candidate: Candidate, folder: Path, key: str) -> dict[str, Path]:
    """Returns the files of its folder that a candidate opens, by relative path.

    ``folder`` is where it runs, with links; files in the working directory keep their relative path. If no
    run can tell, all files whose name is in the source are returned.
    """
    script = write_program(candidate, folder)
    program = replace(probe.program, path=str(script), module=None, sha256=key)
    outcome = lab.submit(replace(probe, program=program, cold=True, bare=False)).result()
    opened = outcome.facts.get("opened")
    if not isinstance(opened, dict):
        return _named_in(candidate)
    files: dict[str, Path] = {}
    roots = [folder.resolve(), Path(str(opened.get("cwd") or folder))]
    for path in map(Path, _texts(opened, "read") + _texts(opened, "handed")):
        for root in roots:
            if root in path.parents and path.is_file() and path != script and ".." not in path.parts:
                files.setdefault(path.relative_to(root).as_posix(), path.resolve())
                break
    return _bounded(files)


def everything(candidate: Candidate) -> dict[str, Path]:
    """Returns all files of a candidate's folder, within the limits of a repro."""
    return _bounded(
        {
            (name if path == source else f"{name}/{path.relative_to(source).as_posix()}"): path
            for name, source in candidate.files.items()
            for path in _below(source)
        }
    )


def lay_out(candidate: Candidate, files: Mapping[str, Path], folder: Path) -> Path:
    """Writes the script and copies of ``files`` into an emptied folder; returns the script's path."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, path in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return write_program(Candidate(candidate.source), folder)


def beside(folder: Path) -> dict[str, Path]:
    """Returns the data files of a repro in ``folder``, by relative path."""
    files = (path for path in _below(folder) if path.name != SCRIPT_NAME)
    return {path.relative_to(folder).as_posix(): path for path in files}


def probe_in(probe: Probe, script: Path, key: str) -> Probe:
    """Returns the probe of a script in a folder of its own, which is also its working directory."""
    program = Program(path=str(script), args=probe.program.args, sha256=key)
    return replace(probe, program=program, cwd=str(script.parent))


def _named_in(candidate: Candidate) -> dict[str, Path]:
    """Returns the files whose name, or whose package's name, is in the source."""
    mentioned = {name: path for name, path in candidate.files.items() if Path(name).stem in candidate.source}
    return everything(Candidate(candidate.source, mentioned))


def _below(source: Path) -> Iterable[Path]:
    if source.is_file():
        yield source
        return
    if _is_skipped(source):
        return
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if not _is_skipped(Path(folder, name)))
        yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())


def _is_skipped(folder: Path) -> bool:
    return folder.name in _SKIPPED or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def _bounded(files: Mapping[str, Path]) -> dict[str, Path]:
    """Keeps as many files as the limits allow, smallest first."""
    kept: dict[str, Path] = {}
    left = MAX_BYTES
    for name, path in sorted(files.items(), key=lambda row: (row[1].stat().st_size, row[0])):
        left -= path.stat().st_size
        if left < 0 or len(kept) >= MAX_FILES:
            break
        if name != SCRIPT_NAME:
            kept[name] = path
    return kept


def _texts(opened: Mapping[str, Any], kind: str) -> list[str]:
    value = opened.get(kind)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
