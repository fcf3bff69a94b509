"""Makes what a container leaves in the run's folder safe to read: no links, pipes or devices.

The script in the container may put anything there. We measure and cut the files that we opened, not what
their names refer to later.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from accel_lab.core.errors import LabError


class Outputs:
    """The output files of one run, held open; one file may serve both streams."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files: dict[Path, int] = {}
        for path in paths:
            if path in self._files:
                continue
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                self._files[path] = os.open(path, flags, 0o644)
            except OSError as error:
                self.close()
                raise LabError(f"cannot open {error.filename}: {error.strerror}") from error

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(os.fstat(file).st_size for file in self._files.values())

    def cut(self, allowed: int) -> bool:
        """Cuts each file to ``allowed`` bytes; returns whether they exceeded it together."""
        if self.size <= allowed:
            return False
        for file in self._files.values():
            if os.fstat(file).st_size > allowed:
                os.truncate(file, allowed)
        return True

    def restore(self) -> None:
        """Writes the files back where the run removed or replaced them."""
        for path, file in self._files.items():
            here = os.fstat(file)
            try:
                there = os.lstat(path)
                if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                    continue
            except OSError:
                pass
            _remove(path)
            os.lseek(file, 0, os.SEEK_SET)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(file, "rb", closefd=False) as source, open(path, "xb") as target:
                shutil.copyfileobj(source, target)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def make_safe(folder: Path, private: Path) -> None:
    """Removes everything but files and folders from a run's folder, and clears setuid and setgid bits.

    ``private`` is the run's working directory: it contains links on purpose, and nobody reads it. If it is
    the folder itself, folders below may belong to other runs and are not touched.
    """
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(base, name)
            try:
                mode = os.lstat(path).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    path.unlink()
                elif mode & (stat.S_ISUID | stat.S_ISGID):
                    path.chmod(stat.S_IMODE(mode) & 0o777)
            except OSError:
                continue  # then it cannot be read either
        if Path(base) == private:
            return
        folders[:] = [name for name in folders if Path(base, name) != private]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
