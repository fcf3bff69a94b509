"""Writes a probe's artifacts: graphs as Python text and generated code, under ``artifacts/``."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import Any, BinaryIO, Callable, Dict, Iterator, Optional

MAX_BYTES = 4 * 1024 * 1024
#: The builtin before the script runs, which may replace it for its process (a fake file system, a mock).
open_file = open


def write_json(
    path: str, data: Any, indent: Optional[int] = None, default: Optional[Callable[[Any], Any]] = None
) -> None:
    """Writes a JSON file atomically; ``indent`` and ``default`` are those of ``json.dump``."""
    with replaced(path) as stream:
        stream.write(json.dumps(data, indent=indent, default=default).encode("utf-8", "surrogatepass"))


@contextlib.contextmanager
def replaced(path: str) -> Iterator[BinaryIO]:
    """Gives a file that takes the place of ``path`` at the end; processes forked by the script do so too."""
    part = "%s.%d-%d.part" % (path, os.getpid(), threading.get_ident())
    with open_file(part, "wb") as stream:
        yield stream
    os.replace(part, path)


class Artifacts:
    """Writes numbered text files; an error while writing does not affect the run."""

    def __init__(self, folder: str, most: int = MAX_BYTES) -> None:
        """``most`` limits the characters of all files together; no file is started beyond it."""
        self._folder = folder
        self._most = most
        self._counts: Dict[str, int] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def home(self) -> str:
        """The probe's folder, parent of the artifacts' folder."""
        return os.path.dirname(self._folder)

    def graph(self, kind: str, gm: Any) -> str:
        """Writes a graph as code with shapes and dtypes; returns the file's name, empty if not written."""
        try:
            text = gm.print_readable(print_output=False)
        except Exception:
            try:
                text = gm.code
            except Exception:
                return ""
        return self.text(kind, text, "py")

    def text(self, kind: str, text: str, suffix: str) -> str:
        """Writes a numbered text file; returns its name, empty if not written."""
        with self._lock:
            if self._bytes > self._most:
                return ""
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            self._bytes += len(text)
            try:
                os.makedirs(self._folder, exist_ok=True)
                path = os.path.join(self._folder, "%s_%d.%s" % (kind, number, suffix))
                with open_file(path, "w", encoding="utf-8", errors="replace") as stream:
                    stream.write(text)
            except OSError:
                return ""
        return os.path.basename(path)

    def generated_code(self, cache_folder: Any, cleaned: Callable[[str], str] = str) -> None:
        """Copies at most 40 files of generated code from Inductor's cache folder of this run.

        ``cleaned`` removes the lab's marks from a text.
        """
        found = []
        for root, _, names in os.walk(cache_folder):
            if "precompiled_headers" in root or "vec_isa" in root:
                continue
            for name in names:
                if name.endswith((".py", ".cpp")) and "header" not in name and "vec_isa" not in name:
                    path = os.path.join(root, name)
                    try:
                        found.append((os.path.getmtime(path), path))
                    except OSError:
                        continue
        for _, path in sorted(found)[:40]:
            try:
                with open_file(path, encoding="utf-8", errors="replace") as stream:
                    text = cleaned(stream.read(400_000))
            except OSError:
                continue
            if (
                path.endswith(".cpp") and "extern" in text and "_chk_kernel()" not in text
            ):  # ``_chk_kernel`` is torch's test of the compiler
                self.text("kernel", text, "cpp")
            elif path.endswith(".py") and "async_compile" in text:
                self.text("output_code", text, "py")
