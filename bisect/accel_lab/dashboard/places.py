"""The folders that a page may name: roots of scripts and folders of runs, with links resolved."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.errors import UsageError

#: Suffixes of what can be bisected: scripts and notebooks.
SUFFIXES = (".py", ".ipynb")
_MOST_PATH = 4096
#: Limits of the list of scripts: examined entries, scripts, and depth.
_MOST_ENTRIES, _MOST_SCRIPTS, _MOST_DEPTH = 4_000, 200, 3


class NotThere(Exception):
    """The target of a request does not exist or must not be shown; the text is for the user."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """``roots`` contain scripts; ``runs`` maps the words in URLs to folders of runs.

    ``new_runs`` is the folder for new bisections, ``pythons`` are the interpreters that may be probed, the
    default first, and ``cwd`` is the working directory of bisections.
    """

    roots: tuple[Path, ...]
    runs: Mapping[str, Path]
    new_runs: Path
    pythons: tuple[str, ...]
    cwd: Path


def places(roots: tuple[Path, ...], kept: Mapping[str, Path], pythons: tuple[str, ...]) -> Places:
    """Returns the places for these roots; ``kept`` are the folders of runs that ``accel-lab list`` knows.

    Runs in a root, or in its folder ``runs``, are shown too. Raises :class:`UsageError` for a root that is
    not a folder.
    """
    real = []
    for root in roots:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder: name one that holds scripts with --root")
        real.append(Path(os.path.realpath(root)))
    found = {name: Path(os.path.realpath(folder)) for name, folder in kept.items()}
    for number, root in enumerate(real, 1):
        for name, folder in ((f"root{number}", root), (f"root{number}-runs", root / "runs")):
            if folder not in found.values() and not folder.is_symlink():
                found[name] = folder
    return Places(
        roots=tuple(dict.fromkeys(real)),
        runs=found,
        new_runs=Path(os.path.realpath(kept["runs"])),
        pythons=pythons,
        cwd=Path.cwd(),
    )


def script_inside(said: str, roots: tuple[Path, ...]) -> Path:
    """Returns the real path of a script in a root; a relative path is searched in each root.

    Raises :class:`NotThere` for a path outside the roots after resolving links, and for anything but a
    regular file.
    """
    if not said or "\0" in said or len(said) > _MOST_PATH:
        raise NotThere("Name a script: a path inside the roots.")
    tried = [Path(said)] if os.path.isabs(said) else [root / said for root in roots]
    for path in tried:
        try:
            real = Path(os.path.realpath(path, strict=True))
            mode = real.stat().st_mode
        except (OSError, ValueError):
            continue
        if not any(root in real.parents for root in roots):
            continue
        if not stat.S_ISREG(mode) or real.suffix not in SUFFIXES:
            raise NotThere(f"{said} is not a script: choose a file that ends in .py or .ipynb.")
        return real
    raise NotThere(f"There is no script {said} inside the roots. Another root is named with --root.")


def scripts(roots: tuple[Path, ...]) -> list[str]:
    """Returns scripts to choose from, up to a depth: relative to the first root, else absolute."""
    found = [str(path.relative_to(roots[0]) if root == roots[0] else path) for root, path in _scripts(roots)]
    return sorted(dict.fromkeys(found))


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """Returns the entries of a folder by name; empty if it cannot be read."""
    try:
        with os.scandir(folder) as listed:
            return sorted(listed, key=lambda entry: entry.name)
    except OSError:
        return []


def _scripts(roots: tuple[Path, ...]) -> Iterator[tuple[Path, Path]]:
    looked = offered = 0
    for root in roots:
        waiting = [(root, 0)]
        while waiting:
            folder, depth = waiting.pop(0)
            for entry in entries_of(folder):
                looked += 1
                if looked > _MOST_ENTRIES or offered >= _MOST_SCRIPTS:
                    return
                if entry.name.startswith((".", "_")):
                    continue
                if entry.is_dir(follow_symlinks=False) and depth < _MOST_DEPTH and _holds_scripts(entry):
                    waiting.append((Path(entry.path), depth + 1))
                elif entry.name.endswith(SUFFIXES) and entry.is_file(follow_symlinks=False):
                    offered += 1
                    yield root, Path(entry.path)


def _holds_scripts(entry: os.DirEntry[str]) -> bool:
    """Whether a folder may contain the user's scripts: false for a run and for a virtual environment."""
    return not any(
        os.path.lexists(os.path.join(entry.path, name)) for name in ("accel-lab-run.json", "pyvenv.cfg")
    )
