"""Copies a user's folder for one run: small files are copied, large ones become links."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from accel_lab.core.machine.files import remove as remove

COPY_BYTES = 8 << 20
COPY_TOTAL_BYTES = 64 << 20
COPY_ENTRIES = 2_000
#: A subfolder with more entries becomes one link; the script's folder and the working directory never do.
LINK_FROM = 20_000
_MOST_DEPTH = 12
#: Folders that scripts only read, if at all.
_NEVER_COPIED = frozenset({"__pycache__", "node_modules", "site-packages"})


@dataclass(kw_only=True)
class Copy:
    """A copy of ``source`` at ``target``. Folders in ``real`` must not become links.

    ``apart`` is left out, because the lab's run folder may be inside the user's. ``deep`` also copies
    subfolders. ``folders`` lists the copied ones. ``cut`` is set if a limit left some entries as links.
    """

    source: Path
    target: Path
    real: tuple[Path, ...] = ()
    apart: Path | None = None
    deep: bool = True
    folders: list[Path] = field(default_factory=list)
    cut: bool = False
    _entries: int = 0
    _bytes: int = 0

    def make(self) -> Copy:
        """Makes the copy: the folders that must be real first, then the nearest."""
        must = {self.source}
        for path in self.real:
            must.update(one for one in (path, *path.parents) if self.source in one.parents)
        self.target.mkdir(parents=True)
        waiting = sorted(must, key=lambda path: len(path.parts))
        for folder in waiting:
            (self.target / folder.relative_to(self.source)).mkdir(exist_ok=True)
        while waiting:
            folder = waiting.pop(0)
            self.folders.append(folder)
            waiting += self._fill(folder, must)
        for folder in reversed(self.folders):
            self._finish(folder)
        return self

    def _fill(self, folder: Path, must: set[Path]) -> list[Path]:
        """Copies the entries of one folder; returns its subfolders that are to be copied next."""
        following = []
        for entry in _listed(folder):
            source = folder / entry.name
            target = self.target / source.relative_to(self.source)
            try:
                if source in must:
                    continue
                if entry.is_symlink():
                    self._link(source, target)
                elif entry.is_dir() and self._goes_into(source):
                    target.mkdir()
                    self._entries += 1
                    following.append(source)
                elif entry.is_file() and self._has_room(entry.stat().st_size):
                    shutil.copy2(source, target)
                    self._entries += 1
                    self._bytes += entry.stat().st_size
                else:
                    target.symlink_to(source)
            except OSError:
                if not os.path.lexists(target):
                    _try_link(source, target)
        return following

    def _goes_into(self, folder: Path) -> bool:
        if not self.deep or folder.name in _NEVER_COPIED or folder.name.startswith("."):
            return False
        if self.apart is not None and folder in (self.apart, *self.apart.parents):
            return False
        if (folder / "pyvenv.cfg").exists():
            return False
        deep = len(folder.relative_to(self.source).parts) > _MOST_DEPTH
        if deep or self._entries >= COPY_ENTRIES or _count(folder) > LINK_FROM:
            self.cut = True
            return False
        return True

    def _has_room(self, size: int) -> bool:
        fits = size <= COPY_BYTES and self._bytes + size <= COPY_TOTAL_BYTES and self._entries < COPY_ENTRIES
        self.cut |= not fits
        return fits

    def _link(self, source: Path, target: Path) -> None:
        """Recreates a link; one that points into ``source`` points into the copy."""
        text = os.readlink(source)
        aim = Path(os.path.normpath(source.parent / text))
        if self.source != aim and self.source not in aim.parents:
            os.symlink(aim, target)
        elif os.path.isabs(text):
            os.symlink(self.target / aim.relative_to(self.source), target)
        else:
            os.symlink(text, target)

    def _finish(self, folder: Path) -> None:
        try:
            shutil.copystat(folder, self.target / folder.relative_to(self.source))
        except OSError:
            return


def _listed(folder: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ()


def _count(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(1 for _ in entries)
    except OSError:
        return 0


def _try_link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source)
    except OSError:
        return
