"""Reads what a child left: regular files of one folder, up to a size, never through a link.

A script runs in the child, so nothing in these files is believed. A FIFO, a device or a link in a file's
place, a file that is too large, text that is no JSON and values of wrong types end in one line
(:class:`Refused`), never in a wait and never in another error.
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
#: What is nested deeper than this no child of ours writes, and a program that walks it may not come back.
MOST_DEPTH = 60
#: So many names of one folder are looked at.
MOST_NAMES = 20_000
_GREATEST = 1 << 128
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK to open a FIFO waits for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Refused(LabError):
    """What was left cannot be read, or is not what the lab's own code writes: which file, and why."""


class ChildFiles:
    """The files below one folder. A name is relative to it, with ``/`` between folders.

    Every reader gives None for a file that is not there and raises :class:`Refused` for one that cannot be
    read safely. ``most`` is in bytes.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def data(self, name: str, most: int) -> bytes | None:
        """The whole file."""
        with self._opened(name) as file:
            if file is None:
                return None
            size = os.fstat(file).st_size
            if size > most:
                raise Refused(f"{name} has {size:,} bytes, {most:,} at most are read")
            data = _read(file, most + 1)
        if len(data) > most:
            raise Refused(f"{name} grew beyond {most:,} bytes while it was read")
        return data

    def part(self, name: str, start: int, size: int, *, most: int) -> bytes | None:
        """``size`` bytes from ``start`` on; fewer where the file ends."""
        if not 0 <= size <= most or start < 0:
            raise Refused(
                f"{name}: {size:,} bytes from {start:,} on are asked for, {most:,} at most are read"
            )
        with self._opened(name) as file:
            if file is None:
                return None
            os.lseek(file, start, os.SEEK_SET)
            return _read(file, size)

    def text(self, name: str, most: int = TEXT_BYTES) -> str | None:
        """The whole file as text; what is not UTF-8 is replaced."""
        data = self.data(name, most)
        return None if data is None else data.decode("utf-8", "replace")

    def tail(self, name: str, most: int) -> str | None:
        """The end of a file as text, however long it is."""
        with self._opened(name) as file:
            if file is None:
                return None
            os.lseek(file, max(0, os.fstat(file).st_size - most), os.SEEK_SET)
            return _read(file, most).decode("utf-8", "replace")

    def head(self, name: str, most: int) -> str | None:
        """The beginning of a file as text, however long it is."""
        data = self.part(name, 0, most, most=most)
        return None if data is None else data.decode("utf-8", "replace")

    def json(self, name: str, shape: Shape = None, *, most: int = JSON_BYTES) -> Any:
        """What a JSON file holds, of the given shape."""
        data = self.data(name, most)
        return None if data is None else parsed(data, name, shape)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes."""
        with self._opened(name) as file:
            return None if file is None else os.fstat(file).st_size

    def names(self, pattern: str) -> list[str]:
        """The names of regular files that match a pattern of their last part, sorted; none is opened."""
        place = PurePosixPath(pattern)
        head = "" if str(place.parent) == "." else f"{place.parent}/"
        found: list[str] = []
        with self._folder_of(pattern) as (folder, _):
            if folder is None:
                return []
            with os.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= MOST_NAMES:
                        raise Refused(f"{head or 'the folder'} holds more than {MOST_NAMES:,} names")
                    if fnmatch.fnmatchcase(entry.name, place.name) and entry.is_file(follow_symlinks=False):
                        found.append(head + entry.name)
        return sorted(found)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """A descriptor of a regular file, None where there is none."""
        with self._folder_of(name) as (folder, last):
            file = None if folder is None else _open(last, _FILE, folder, name)
        if file is None:
            yield None
            return
        try:
            mode = os.fstat(file).st_mode
            if not stat.S_ISREG(mode):
                raise Refused(f"{name} is {kind_of(mode)}, not a file")
            yield file
        except OSError as error:
            raise Refused(f"{name} cannot be read: {error.strerror}") from None
        finally:
            os.close(file)

    @contextmanager
    def _folder_of(self, name: str) -> Iterator[tuple[int | None, str]]:
        """A descriptor of the folder that a file lies in, entered step by step, and the file's own name."""
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or parts[0] == "/" or "\0" in name:
            raise Refused(f"{name!r} does not name a file of the run's folder")
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
    """What something is that is not a regular file, in words."""
    return next((words for test, words in _KINDS if test(mode)), "something else")


def parsed(data: bytes | str, name: str, shape: Shape = None) -> Any:
    """JSON text as values of the given shape; raises :class:`Refused` naming the file that it is of."""
    try:
        value = json.loads(data)
    except RecursionError:
        raise Refused(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise Refused(f"{name} is not JSON: {error}"[:200]) from None
    _limited(value, name)
    if shape is not None and (wrong := misfit(value, shape)):
        raise Refused(f"{name}: {wrong}")
    return value


@contextmanager
def believed(name: str) -> Iterator[None]:
    """Around code that makes typed objects of what :func:`parsed` gave: what it lacks is refused."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Refused(
            f"{name} is not what the lab's own code writes ({type(error).__name__}: {error})"[:200]
        ) from None


def _limited(value: Any, name: str) -> None:
    """Refuse what is nested too deeply, and numbers that no float can hold."""
    level = [value]
    for _ in range(MOST_DEPTH):
        following: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                following.extend(one.values())
            elif isinstance(one, list):
                following.extend(one)
            elif isinstance(one, int) and not -_GREATEST < one < _GREATEST:
                raise Refused(f"{name} holds a whole number of more than 38 digits")
        level = following
        if not level:
            return
    raise Refused(f"{name} is nested more than {MOST_DEPTH} deep")


def _open(name: str, flags: int, folder: int | None, shown: str) -> int | None:
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused(f"{shown} is a link") from None
        if error.errno == errno.ENOTDIR:
            raise Refused(f"{shown}: what should be a folder is a link or a file") from None
        if error.errno == errno.ENXIO:
            raise Refused(f"{shown} is a socket or a device, not a file") from None
        raise Refused(f"{shown} cannot be opened: {error.strerror}") from None


def _read(file: int, most: int) -> bytes:
    parts, left = [], most
    while left > 0:
        part = os.read(file, min(left, MB))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
