"""Detects changes that runs made in the user's folders despite their copies, and reverts them.

An absolute path, or a link to something too large to copy, leads a script out of its copy. Files that people
edit by hand are never reverted, because the change may be the user's. What is removed is kept in the run's
folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .copies import Copy

_Known = dict[Path, tuple[int, int]]

#: Folders with more files are not checked.
_MOST_FILES = 50_000
#: Suffixes of files that people write by hand, perhaps while the lab runs.
_BY_HAND = frozenset(
    {".py", ".pyi", ".ipynb", ".md", ".rst", ".toml", ".cfg", ".ini", ".c", ".cc", ".cpp", ".cu", ".h", ".sh"}
)


@dataclass(kw_only=True)
class Changes:
    """The state of the folders at the first run, with ``copies`` of them that no run sees.

    Files that runs wrote are moved to ``kept``.
    """

    copies: list[Copy]
    kept: Path
    _before: _Known = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = self._look()

    def restore(self) -> str:
        """Reverts what differs now; returns a line for the user, or an empty string."""
        now = self._look()
        if len(now) > _MOST_FILES or len(self._before) > _MOST_FILES:
            return ""
        back: list[Path] = []
        left: list[Path] = []
        for path in sorted({*now, *self._before}):
            if now.get(path) == self._before.get(path) or _is_by_hand(path):
                continue
            (back if self._put_back(path, path in self._before) else left).append(path)
        self._before = self._look()
        if not back and not left:
            return ""
        parts = []
        if back:
            parts.append(f"{_names(back)} (restored; the run's version is in {self.kept})")
        if left:
            parts.append(f"{_names(left)} (too large to be restored)")
        return "a run wrote to the script's folder by an absolute path or through a link: " + ", ".join(parts)

    def _put_back(self, path: Path, was_there: bool) -> bool:
        original = self._original(path)
        if was_there and (original is None or original.is_symlink() or not original.is_file()):
            return False
        try:
            if path.exists():
                target = self.kept / path.relative_to(path.anchor)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)
            if was_there and original is not None:
                shutil.copy2(original, path)
        except OSError:
            return False
        return True

    def _original(self, path: Path) -> Path | None:
        for copy in self.copies:
            if copy.source in path.parents:
                return copy.target / path.relative_to(copy.source)
        return None

    def _look(self) -> _Known:
        return dict(self._files())

    def _files(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for copy in self.copies:
            for folder in copy.folders:
                try:
                    with os.scandir(folder) as entries:
                        for entry in entries:
                            if entry.is_file(follow_symlinks=False):
                                known = entry.stat(follow_symlinks=False)
                                yield folder / entry.name, (known.st_mtime_ns, known.st_size)
                except OSError:
                    continue


def _is_by_hand(path: Path) -> bool:
    return path.suffix in _BY_HAND or path.name.startswith(".") or path.name.endswith("~")


def _names(paths: list[Path]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(path.name for path in paths[:3]) + more
