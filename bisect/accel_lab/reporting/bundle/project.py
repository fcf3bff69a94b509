"""Determines a program's files: the script, and every file of its project that a run of it opened.

The child recorded the opened files (``facts["opened"]``), so a name counts only if that file is in the
project now. Files that the program read elsewhere are named, never packed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Findings
from accel_lab.core.probe import Program
from accel_lab.reporting import run_files

from .kinds_of_files import (
    bound_of,
    entries_of,
    is_broad,
    is_environment,
    is_file,
    is_inside,
    is_run,
    is_secret,
    is_temporary,
    paths_in,
    size_of,
)
from .local_imports import MAX_MODULES, imported_names, module_files

#: Limits: files from one listed folder, unopened files, and bytes of one of these.
MAX_LISTED, MAX_UNOPENED = 500, 2_000
MAX_UNOPENED_BYTES = 5_000_000
MAX_EXTERNAL = 40
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", ".git", ".hg", ".svn"})


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file of the program. ``name`` is its path relative to the project's folder.

    ``why`` is ``script``, ``read``, ``imported``, ``argument``, ``listed`` or ``beside`` (nothing opened it).
    ``origin`` is its path in the user's folder, if ``path`` is a copy; ``here`` is False if it could not be
    copied.
    """

    name: str
    path: Path
    why: str
    size: int = 0
    origin: Path | None = None
    here: bool = True

    @property
    def needed(self) -> bool:
        """Whether a run of the program requested it."""
        return self.why not in ("listed", "beside")


@dataclass(frozen=True, kw_only=True)
class ExternalFile:
    """A file that the program read and that is not packed: its path, its size in bytes, the reason."""

    path: str
    size: int
    reason: str


@dataclass(kw_only=True)
class Project:
    """The files of a program and how it is run.

    ``script``, ``cwd`` and ``pythonpath`` are relative to the project's folder. ``args`` name packed files
    relative to ``cwd``. ``watched``: a run recorded which files it opened.
    """

    script: str | None = None
    module: str | None = None
    args: tuple[str, ...] = ()
    cwd: str = ""
    pythonpath: tuple[str, ...] = ()
    stdin: Path | None = None
    members: list[Member] = field(default_factory=list)
    apart: list[ExternalFile] = field(default_factory=list)
    watched: bool = False

    @property
    def is_single_script(self) -> bool:
        """Whether the script is the only file."""
        return self.script is not None and len(self.members) <= 1 and not self.cwd and self.stdin is None


def look(findings: Findings, run_dir: Path, *, whole: bool = False) -> Project:
    """Returns the project of a run that was just made; ``whole`` adds files there that nothing opened.

    A run's folder may be a stranger's, and this reads the files that it names, so later :mod:`.project_copy`
    is used.
    """
    return _Maker(findings.program, _opened(findings), run_files.request_of(run_dir), run_dir).make(whole)


def _opened(findings: Findings) -> dict[str, Any]:
    for step in findings.baseline:
        opened = step.outcome.facts.get("opened")
        if isinstance(opened, dict):
            return opened
    return {}


class _Maker:
    """Builds a :class:`Project`: finds its folders, then the files in them."""

    def __init__(
        self, program: Program, opened: dict[str, Any], request: dict[str, Any], run_dir: Path
    ) -> None:
        self.program = program
        self.run_dir = run_dir.resolve()
        self.opened = {key: _texts(value) for key, value in opened.items() if key != "cwd"}
        self.watched = bool(opened)
        cwd = opened.get("cwd") or request.get("cwd")
        home = Path(program.origin or program.path).parent if program.path is not None else None
        self.cwd = Path(cwd) if isinstance(cwd, str) and cwd else home or Path.cwd()
        self.folder = home if home is not None else self.cwd
        stdin = request.get("stdin")
        self.stdin = Path(stdin) if isinstance(stdin, str) and stdin and Path(stdin).is_file() else None
        self.mounts = self._mounts()
        self.found: dict[str, Member] = {}

    def make(self, whole: bool) -> Project:
        program, made = self.program, Project(watched=self.watched, module=self.program.module)
        if program.path is not None:
            made.script = self._script(Path(program.path))
        made.args = tuple(self._argument(arg) for arg in program.args)
        for kind, why in (("read", "read"), ("handed", "read")):
            for path in self.opened.get(kind, ()):
                self._take(Path(path), why)
        for path in self.opened.get("listed", ()):
            self._listed(Path(path))
        made.pythonpath = tuple(self._name(Path(path)) or "" for path in self._pythonpath())
        self._imports()
        if self._other_python():
            self._add_unopened("listed")
        elif whole:
            self._add_unopened("beside")
        made.cwd = self._name(self.cwd) or ""
        made.stdin = self.stdin
        made.members = sorted(self.found.values(), key=lambda m: m.name)
        made.apart = self._external_files()
        return made

    # -- folders ----------------------------------------------------------------------------------

    def _mounts(self) -> list[tuple[Path, str]]:
        """Returns the folders to pack, each with its path below the project's, nearest first."""
        bounds = [one for one in (bound_of(self.folder), bound_of(self.cwd)) if one is not None]
        base = [self.folder]
        related = is_inside(self.folder, self.cwd) or is_inside(self.cwd, self.folder)
        related |= any(is_inside(self.folder, one) and is_inside(self.cwd, one) for one in bounds)
        if related and (not is_broad(self.cwd) or self._named_from_cwd()):
            base.append(self.cwd)
        for bound in bounds:
            if is_inside(self.folder, bound):
                own = [Path(p) for kind in ("read", "handed") for p in self.opened.get(kind, ())]
                base += [path.parent for path in own if is_inside(path, bound) and path.is_file()]
        root = Path(os.path.commonpath([str(one) for one in base]))
        mounts = [(root, "")]
        if not is_inside(self.cwd, root) and not is_broad(self.cwd):
            mounts.append((self.cwd, "workdir"))
        return mounts

    def _named_from_cwd(self) -> bool:
        """Whether an argument names a file relative to the working directory."""
        words = [word for arg in self.program.args for word in paths_in(arg)]
        return any(not os.path.isabs(word) and (self.cwd / word).is_file() for word in words)

    def _name(self, path: Path) -> str | None:
        """Returns a path relative to the project's folder (``""`` for that folder); None if it is outside."""
        path = Path(os.path.normpath(path))
        for folder, prefix in self.mounts:
            if is_inside(path, folder):
                rest = path.relative_to(folder).as_posix()
                return "/".join(part for part in (prefix, rest) if part not in ("", "."))
        return None

    # -- files ------------------------------------------------------------------------------------

    def _script(self, path: Path) -> str:
        if self.program.origin:  # made from a notebook, and run as if it were in the notebook's folder
            name = self._name(self.folder / path.name) or path.name
        else:
            name = self._name(path) or path.name
        self.found[name] = Member(name=name, path=path, why="script", size=size_of(path))
        return name

    def _take(self, path: Path, why: str) -> str | None:
        """Adds a file if it belongs to the project; returns its path there, or None."""
        name = self._name(path)
        if not name or name in self.found or not self._is_ours(path):
            return name if name in self.found else None
        self.found[name] = Member(name=name, path=path, why=why, size=size_of(path))
        return name

    def _is_ours(self, path: Path) -> bool:
        """Whether it is a regular file in the project and not in the run's folder, with no secret name."""
        try:
            real = path.resolve()
            return (
                path.is_file()
                and not is_secret(path)
                and not is_inside(real, self.run_dir)
                and any(is_inside(real, folder.resolve()) for folder, _ in self.mounts)
            )
        except OSError:
            return False

    def _argument(self, arg: str) -> str:
        """Adds the file that an argument names; returns the argument with its path in the bundle."""
        for word in paths_in(arg):
            path = Path(os.path.normpath(self.cwd / word))
            if not path.exists():
                continue
            name = self._name(path)
            if name is None and path.is_file() and not is_secret(path):
                name = f"inputs/{path.name}"
                self.found.setdefault(name, Member(name=name, path=path, why="argument", size=size_of(path)))
            elif name is not None and path.is_file():
                self._take(path, "argument")
            if name is None or (not os.path.isabs(word) and self._name(self.cwd) is not None):
                continue  # a relative path stays valid
            return arg.replace(word, os.path.relpath(name or ".", self._name(self.cwd) or "."), 1)
        return arg

    def _listed(self, folder: Path) -> None:
        """Adds all files of a listed folder, unless it contains Python modules."""
        if self._name(folder) in (None, "") or folder in (self.folder, self.cwd):
            return
        files = [path for path in entries_of(folder) if path.is_file()]
        if any(path.suffix == ".py" for path in files):
            return
        for path in files[:MAX_LISTED]:
            self._take(path, "listed")

    def _pythonpath(self) -> Iterator[str]:
        return (path for path in self.opened.get("pythonpath", ()) if self._name(Path(path)) is not None)

    def _imports(self) -> None:
        """Adds the project's modules that the sources import, also those that the run did not reach."""
        folders = [self.folder, *map(Path, self._pythonpath())]
        queue = [member.path for member in self.found.values() if member.name.endswith(".py")]
        if self.program.path is not None:
            queue.append(Path(self.program.path))
        seen: set[str] = set()
        while queue and len(self.found) < MAX_MODULES:
            for name in imported_names(run_files.read_text(queue.pop(0), 2_000_000).text):
                if name in seen:
                    continue
                seen.add(name)
                for path in (path for folder in folders for path in module_files(folder, name)):
                    if self._name(path) not in self.found and self._take(path, "imported"):
                        queue.append(path)

    def _other_python(self) -> bool:
        """Whether the program started another Python, whose opened files were not recorded."""
        handed = self.opened.get("handed", ())
        return bool(self.opened.get("spawned")) or any(path.endswith(".py") for path in handed)

    def _add_unopened(self, why: str) -> None:
        """Adds the other files of the project, nearest first."""
        if is_broad(self.mounts[0][0]):
            return
        waiting, left = [self.mounts[0][0]], MAX_UNOPENED
        while waiting and left > 0:
            for path in entries_of(waiting.pop(0)):
                if path.name in _SKIPPED or path.name.startswith(".") or path.is_symlink():
                    continue
                if path.is_dir():
                    if not is_environment(path) and path.resolve() != self.run_dir and not is_run(path):
                        waiting.append(path)
                elif left > 0 and size_of(path) <= MAX_UNOPENED_BYTES and self._take(path, why):
                    left -= 1

    def _external_files(self) -> list[ExternalFile]:
        """Lists files that the program read but that are not packed: outside the project, or secret."""
        rows = []
        for path in dict.fromkeys([*self.opened.get("read", ()), *self.opened.get("handed", ())]):
            place = Path(path)
            name = self._name(place)
            if name in self.found or is_temporary(place, self.run_dir) or not is_file(place):
                continue
            if name is None and any(member.path == place for member in self.found.values()):
                continue
            reason = "outside the script's folder"
            if name is not None:
                reason = "secret, by its name" if is_secret(place) else "a link that leads out of the folder"
            rows.append(ExternalFile(path=path, size=size_of(place), reason=reason))
        if len(rows) > MAX_EXTERNAL:
            more = ExternalFile(
                path=f"{len(rows) - MAX_EXTERNAL:,} more files", size=0, reason="outside the folder"
            )
            rows = [*rows[:MAX_EXTERNAL], more]
        return rows


def _texts(value: Any) -> list[str]:
    return (
        [one for one in value if isinstance(one, str) and "\0" not in one] if isinstance(value, list) else []
    )
