"""The folder through which files travel between the requesting machine and the workers, opened by fsspec.

Failed operations are retried for a while: network shares and object stores are sometimes unreachable for a
minute, which must not end a bisection of an hour.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.text import shorten

_T = TypeVar("_T")

#: Seconds: how long a store may be unreachable; the first and the longest pause between retries.
PATIENCE_S = 150.0
_FIRST_S, _LONGEST_S = 0.5, 15.0
#: Errors that a retry does not fix.
_FINAL = (FileNotFoundError, PermissionError, NotImplementedError, ImportError)


class StoreLost(LabError):
    """The store was unreachable for too long (exit code 3)."""


class Store:
    """Files under short names (``runs/KEY.zip``); each is written atomically.

    ``wait`` pauses between retries. ``listener`` gets a line when a retry begins. Raises :class:`UsageError`
    for an address that cannot be opened, :class:`StoreLost` for one that stays unreachable.
    """

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = PATIENCE_S,
        wait: Callable[[float], None] = time.sleep,
        listener: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.url = url
        self._patience_s, self._wait, self._listener = patience_s, wait, listener
        self._files, self._root = _opened(url)

    def has(self, name: str) -> bool:
        return bool(self._patiently(lambda: self._files.exists(self._path(name))))

    def put(self, source: Path, name: str) -> None:
        """Copies a local file to the store."""
        self._patiently(lambda: self._put(source, name))

    def get(self, name: str, target: Path) -> None:
        """Copies a file of the store to this machine; raises :class:`FileNotFoundError` if there is none."""
        self._patiently(lambda: self._files.get_file(self._path(name), str(target)))

    def mark(self, name: str, text: str) -> None:
        """Writes a small file."""

        def write() -> None:
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(self._path(name), text.encode())

        self._patiently(write)

    def read(self, name: str, most: int = 4096) -> str:
        """Returns the beginning of a small file, or an empty string if it is missing."""
        try:
            data: bytes = self._patiently(lambda: self._files.cat_file(self._path(name), end=most))
        except FileNotFoundError:
            return ""
        return data.decode("utf-8", "replace")

    def names(self, folder: str) -> list[str]:
        """Returns the names of the files in one folder of the store, sorted; empty if it is missing."""

        def listed() -> list[str]:
            try:
                found = self._files.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
            return sorted(f"{folder}/{str(path).rstrip('/').rpartition('/')[2]}" for path in found)

        return self._patiently(listed)

    def drop(self, name: str) -> None:
        """Removes a file if it exists."""
        try:
            self._patiently(lambda: self._files.rm_file(self._path(name)))
        except FileNotFoundError:
            return

    def _put(self, source: Path, name: str) -> None:
        """Writes to a temporary name first, so that no reader on another machine sees half of a file."""
        path = self._path(name)
        part = f"{path}.{secrets.token_hex(8)}.part"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.put_file(str(source), part)
        self._files.mv(part, path)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _patiently(self, act: Callable[[], _T]) -> _T:
        """Calls ``act``; while it fails, retries with doubled pauses."""
        pause, waited = _FIRST_S, 0.0
        while True:
            try:
                return act()
            except _FINAL as error:
                if isinstance(error, FileNotFoundError):
                    raise
                raise StoreLost(f"the store {self.url} cannot be used: {_line(error)}") from None
            except Exception as error:  # every file system of fsspec has its own errors
                if waited >= self._patience_s:
                    raise StoreLost(
                        f"the store {self.url} has not answered for {waited:.0f} s: {_line(error)}"
                    ) from None
                if not waited:
                    self._listener(f"the store {self.url} does not answer ({_line(error)}): trying again")
                self._wait(pause)
                waited += pause
                pause = min(pause * 2, _LONGEST_S)


def _line(error: BaseException) -> str:
    return shorten(" ".join(f"{type(error).__name__}: {error}".split()), 200)


def _opened(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            "--store needs fsspec, which is not installed here: pip install 'accel-lab[cluster]'"
        ) from None
    try:
        # A cached listing would hide files that other machines have written since.
        files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:  # a package such as s3fs, which fsspec names
        raise UsageError(f"--store {url} needs a package that is not installed here: {error}") from None
    except Exception as error:
        raise UsageError(
            f"--store {url} cannot be opened ({_line(error)}): name a folder that the workers reach too, "
            "such as file:///shared/accel-lab or s3://bucket/accel-lab"
        ) from None
    return files, str(root).rstrip("/")


__all__ = ["PATIENCE_S", "Store", "StoreLost"]
