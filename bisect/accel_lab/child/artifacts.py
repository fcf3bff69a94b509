"""What a probe leaves for the reader: graphs as Python text, generated code, under ``artifacts/``."""

from __future__ import annotations

import os
import threading
from typing import Any, Dict

MAX_BYTES = 4 * 1024 * 1024


class Artifacts:
    """Writes numbered text files; a failure to write one never disturbs the run."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._counts: Dict[str, int] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def home(self) -> str:
        """The probe's folder."""
        return os.path.dirname(self._folder)

    def graph(self, kind: str, gm: Any) -> None:
        """The graph as readable code with shapes and dtypes."""
        try:
            text = gm.print_readable(print_output=False)
        except Exception:
            try:
                text = gm.code
            except Exception:
                return
        self.text(kind, text, "py")

    def text(self, kind: str, text: str, suffix: str) -> None:
        """One numbered text file."""
        with self._lock:
            if self._bytes > MAX_BYTES:
                return
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            self._bytes += len(text)
            try:
                os.makedirs(self._folder, exist_ok=True)
                path = os.path.join(self._folder, "%s_%d.%s" % (kind, number, suffix))
                with open(path, "w", encoding="utf-8", errors="replace") as stream:
                    stream.write(text)
            except OSError:
                return

    def generated_code(self, cache_folder: Any) -> None:
        """Copy the code that Inductor generated during this run out of its private cache folder."""
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
                with open(path, encoding="utf-8", errors="replace") as stream:
                    text = stream.read(400_000)
            except OSError:
                continue
            if path.endswith(".cpp") and "extern" in text:
                self.text("kernel", text, "cpp")
            elif path.endswith(".py") and "async_compile" in text:
                self.text("output_code", text, "py")
