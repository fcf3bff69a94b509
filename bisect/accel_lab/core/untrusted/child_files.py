"""Reads a child's output files safely: regular files of one folder, up to a size, without following links.

The child runs an untrusted script, so nothing in these files is trusted. A FIFO, device or link instead of a
file, a file that is too large, text that is not JSON and values of wrong types raise
:class:`UntrustedFileError`, a one-line error; no read blocks and no other error escapes.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from accel_lab.core.errors import LabError

from .shapes import Shape, misfit

MB = 1 << 20
TEXT_BYTES = 64 * MB
JSON_BYTES = 64 * MB
#: JSON nested deeper than this does not come from our child, and could overflow a recursive reader.
MOST_DEPTH = 60
#: The greatest number of names that are read from one folder.
MOST_NAMES = 20_000
_GREATEST = 1 << 128
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO waits for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UntrustedFileError(LabError):
    """A child's file cannot be read, or is not what the lab's own code writes; says which file and why."""


class ChildFiles:
    """Reads the files of one folder. Names are relative to it, with ``/`` between folders.

    Every reader returns None if the file does not exist and raises :class:`UntrustedFileError` if it cannot
    be read safely. ``most`` is in bytes.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def data(self, name: str, most: int) -> bytes | None:
        """Returns the whole file."""
        with self._opened(name) as file:
            if file is None:
                return None
            size = os.fstat(file).st_size
            if size > most:
                raise UntrustedFileError(f"{name} has {size:,} bytes, {most:,} at most are read")
            data = _read(file, most + 1)
        if len(data) > most:
            raise UntrustedFileError(f"{name} grew beyond {most:,} bytes while it was read")
        return data

    def part(self, name: str, start: int, size: int, *, most: int) -> bytes | None:
        """Returns ``size`` bytes from ``start`` on; fewer at the end of the file."""
        if not 0 <= size <= most or start < 0:
            raise UntrustedFileError(
                f"{name}: {size:,} bytes from {start:,} on are asked for, {most:,} at most are read"
            )
        with self._opened(name) as file:
            if file is None:
                return None
            os.lseek(file, start, os.SEEK_SET)
            return _read(file, size)

    def text(self, name: str, most: int = TEXT_BYTES) -> str | None:
        """Returns the whole file as text; invalid UTF-8 is replaced."""
        data = self.data(name, most)
        return None if data is None else data.decode("utf-8", "replace")

    def tail(self, name: str, most: int) -> str | None:
        """Returns the end of a file of any size as text."""
        with self._opened(name) as file:
            if file is None:
                return None
            os.lseek(file, max(0, os.fstat(file).st_size - most), os.SEEK_SET)
            return _read(file, most).decode("utf-8", "replace")

    def head(self, name: str, most: int) -> str | None:
        """Returns the beginning of a file of any size as text."""
        data = self.part(name, 0, most, most=most)
        return None if data is None else data.decode("utf-8", "replace")

    def json(self, name: str, shape: Shape = None, *, most: int = JSON_BYTES) -> Any:
        """Returns the content of a JSON file, checked against the shape."""
        data = self.data(name, most)
        return None if data is None else parsed(data, name, shape)

    def size(self, name: str) -> int | None:
        """Returns the size of a file in bytes."""
        with self._opened(name) as file:
            return None if file is None else os.fstat(file).st_size

    def names(self, pattern: str) -> list[str]:
        """Returns the sorted names of regular files whose last part matches a pattern; opens none."""
        place = PurePosixPath(pattern)
        head = "" if str(place.parent) == "." else f"{place.parent}/"
        found: list[str] = []
        with self._folder_of(pattern) as (folder, _):
            if folder is None:
                return []
            with os.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= MOST_NAMES:
                        raise UntrustedFileError(
                            f"{head or 'the folder'} holds more than {MOST_NAMES:,} names"
                        )
                    if fnmatch.fnmatchcase(entry.name, place.name) and entry.is_file(follow_symlinks=False):
                        found.append(head + entry.name)
        return sorted(found)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """A descriptor of a regular file, None if it does not exist."""
        with self._folder_of(name) as (folder, last):
            file = None if folder is None else _open(last, _FILE, folder, name)
        if file is None:
            yield None
            return
        try:
            mode = os.fstat(file).st_mode
            if not stat.S_ISREG(mode):
                raise UntrustedFileError(f"{name} is {kind_of(mode)}, not a file")
            yield file
        except OSError as error:
            raise UntrustedFileError(f"{name} cannot be read: {error.strerror}") from None
        finally:
            os.close(file)

    @contextmanager
    def _folder_of(self, name: str) -> Iterator[tuple[int | None, str]]:
        """A descriptor of the file's folder, opened one folder at a time, and the last part of the name."""
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or parts[0] == "/" or "\0" in name:
            raise UntrustedFileError(f"{name!r} does not name a file of the run's folder")
        folder = _open(str(self.folder), _DIRECTORY, None, "the run's folder")
        try:
            for part in parts[:-1]:
                if folder is None:
                    break
                inner = _open(part, _DIRECTORY, folder, name)
                os.close(folder)
                folder = inner
            yield folder, parts[-1]
        finally:
            if folder is not None:
                os.close(folder)


def kind_of(mode: int) -> str:
    """Describes what a non-regular file is."""
    return next((words for test, words in _KINDS if test(mode)), "something else")


def parsed(data: bytes | str, name: str, shape: Shape = None) -> Any:
    """Parses JSON text and checks its shape; raises :class:`UntrustedFileError` with the file's name."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise UntrustedFileError(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise UntrustedFileError(f"{name} is not JSON: {error}"[:200]) from None
    _limited(value, name)
    if shape is not None and (wrong := misfit(value, shape)):
        raise UntrustedFileError(f"{name}: {wrong}")
    return value


@contextmanager
def refuse_malformed(name: str) -> Iterator[None]:
    """Context for code that converts :func:`parsed` values; its errors become :class:`UntrustedFileError`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UntrustedFileError(f"{name} is malformed ({type(error).__name__}: {error})"[:200]) from None


def _limited(value: Any, name: str) -> None:
    """Refuses values that are nested too deeply, and integers of more than 38 digits."""
    level = [value]
    for _ in range(MOST_DEPTH):
        following: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                following.extend(one.values())
            elif isinstance(one, list):
                following.extend(one)
            elif isinstance(one, int) and not -_GREATEST < one < _GREATEST:
                raise UntrustedFileError(f"{name} holds a whole number of more than 38 digits")
        level = following
        if not level:
            return
    raise UntrustedFileError(f"{name} is nested more than {MOST_DEPTH} deep")


def _open(name: str, flags: int, folder: int | None, shown: str) -> int | None:
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UntrustedFileError(f"{shown} is a link") from None
        if error.errno == errno.ENOTDIR:
            raise UntrustedFileError(f"{shown}: what should be a folder is a link or a file") from None
        if error.errno == errno.ENXIO:
            raise UntrustedFileError(f"{shown} is a socket or a device, not a file") from None
        raise UntrustedFileError(f"{shown} cannot be opened: {error.strerror}") from None


def _read(file: int, most: int) -> bytes:
    parts, left = [], most
    while left > 0:
        part = os.read(file, min(left, MB))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
