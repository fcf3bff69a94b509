"""Lists the runs that the page shows, and serves the files in their folders, which are untrusted."""

from __future__ import annotations

import mimetypes
import os
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.execution.run_folder.lock import NAME as LOCK
from accel_lab.execution.run_folder.lock import user_of
from accel_lab.reporting.runs.kept_run import RUNNING, UNFINISHED

from .places import NotThere, entries_of

#: Limits: entries of a folder of runs, listed files of a run, and depth.
_MOST_ENTRIES, MOST_FILES, _MOST_DEPTH = 10_000, 3_000, 12
MOST_BYTES = 64 << 20
_TEXT = "text/plain; charset=utf-8"
_SHOWN = {
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}

#: Returns the row of ``accel-lab list`` for a folder; None if it is not a run.
Describe = Callable[[Path], "dict[str, Any] | None"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run in the list.

    ``time`` is in seconds since the epoch, ``key`` is for URLs, ``busy`` if in use.
    """

    key: str
    folder: Path
    name: str
    kind: str
    verdict: str
    stage: str
    time: float
    mb: float
    busy: bool

    @property
    def url(self) -> str:
        """The address of its page, relative to the dashboard's root."""
        return f"/runs/{quote(self.key)}"


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """One regular file of a run; ``size`` is in bytes."""

    path: str
    size: int

    @property
    def suffix(self) -> str:
        """The suffix in lower case, such as ``.png``."""
        return Path(self.path).suffix.lower()

    @property
    def group(self) -> str:
        """The top folder that it is listed under; empty for files directly in the run's folder."""
        return self.path.split("/", 1)[0] if "/" in self.path else ""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A file as sent to the browser. ``untrusted`` marks a page that must be sandboxed."""

    data: bytes
    kind: str
    untrusted: bool
    attached: bool


class Runs:
    """The runs in some folders; a run's row is cached until its folder changes."""

    def __init__(self, bases: Mapping[str, Path], describe: Describe) -> None:
        self._bases, self._describe = dict(bases), describe
        self._known: dict[Path, tuple[int, dict[str, Any] | None]] = {}
        self._lock = threading.Lock()

    def rows(self) -> list[Row]:
        """Returns all runs, newest first."""
        found = [row for base in self._bases for row in self._of(base)]
        return sorted(found, key=lambda row: (-row.time, row.key))

    def row(self, base: str, name: str) -> Row:
        """Returns one run; raises :class:`NotThere` for an unknown name or a link."""
        folder = self._bases.get(base)
        if folder is None or name in ("", ".", "..") or "/" in name or "\0" in name:
            raise NotThere("There is no such run.")
        made = self._row(base, folder / name)
        if made is None:
            raise NotThere("There is no such run: it was removed, or never made.")
        return made

    def key_of(self, folder: Path) -> str:
        """Returns the key of a run's folder; empty if it is not shown."""
        for base, place in self._bases.items():
            if folder.parent == place:
                return f"{base}/{folder.name}"
        return ""

    def _of(self, base: str) -> list[Row]:
        rows = []
        try:
            with os.scandir(self._bases[base]) as entries:
                for number, entry in enumerate(entries):
                    if number >= _MOST_ENTRIES:
                        break
                    row = self._row(base, Path(entry.path))
                    rows += [row] if row is not None else []
        except OSError:
            pass
        return rows

    def _row(self, base: str, folder: Path) -> Row | None:
        try:
            folder.name.encode("utf-8")  # otherwise no URL can name it
            state = folder.lstat()
        except (OSError, ValueError):
            return None
        if not stat.S_ISDIR(state.st_mode) or os.path.realpath(folder) != str(folder):
            return None
        with self._lock:
            known = self._known.get(folder)
        if known is None or known[0] != state.st_mtime_ns:
            try:
                known = (state.st_mtime_ns, self._describe(folder))
            except OSError:  # it is being removed
                return None
            with self._lock:
                self._known[folder] = known
        said = known[1]
        if said is None:
            return None
        words = {name: str(said[name]) for name in ("name", "kind", "verdict", "stage")}
        busy = user_of(folder) is not None
        if busy and words["verdict"] == UNFINISHED:
            words["verdict"] = RUNNING
        return Row(
            key=f"{base}/{folder.name}", folder=folder, time=said["time"], mb=said["mb"], busy=busy, **words
        )


def files_of(folder: Path) -> tuple[list[RunFile], bool]:
    """Returns the regular files below a run's folder, sorted, and whether there are more."""
    found: list[RunFile] = []
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop(0)
        for entry in entries_of(place):
            if len(found) >= MOST_FILES:
                return found, True
            try:
                state = entry.stat(follow_symlinks=False)
                path = os.path.relpath(entry.path, folder)
                path.encode("utf-8")
            except (OSError, UnicodeEncodeError):
                continue
            if stat.S_ISDIR(state.st_mode) and depth < _MOST_DEPTH:
                waiting.append((Path(entry.path), depth + 1))
            elif stat.S_ISREG(state.st_mode) and path != LOCK:
                found.append(RunFile(path=path, size=state.st_size))
    return sorted(found, key=lambda file: file.path), False


def served(folder: Path, path: str) -> Served:
    """Reads a file of a run; raises :class:`NotThere` for anything but a regular file, also for a link."""
    if path == LOCK:  # it has the run's id, with which another process could pose as one of the run's
        raise NotThere("The lock of a run is not shown.")
    try:
        data = ChildFiles(folder).data(path, MOST_BYTES)
    except (UntrustedFileError, ValueError) as error:
        raise NotThere(f"{error}.") from None
    if data is None:
        raise NotThere("There is no such file in that run.")
    suffix = Path(path).suffix.lower()
    kind = _SHOWN.get(suffix)
    if kind is None and b"\0" not in data[:8192] and suffix not in (".zip", ".pdf"):
        kind = _TEXT
    untrusted = suffix in (".html", ".svg")
    attached = kind is None
    return Served(data=data, kind=kind or _binary(path), untrusted=untrusted, attached=attached)


def _binary(path: str) -> str:
    guessed = mimetypes.guess_type(path)[0] or ""
    return guessed if guessed == "application/zip" else "application/octet-stream"
