"""Finds the Python interpreters of this machine."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_NAME = re.compile(r"python3\.(\d+)")


def find_interpreters() -> dict[str, str]:
    """Maps versions (``3.11``) to programs: the lab's own first, then those on PATH, pyenv's and uv's.

    Shims are skipped, because they start whatever their version manager selects, or nothing.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    base = getattr(sys, "_base_executable", "") or sys.executable
    found = {own: os.path.realpath(base)}
    home = Path.home()
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    for pattern in (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin"):
        folders += sorted(home.glob(pattern), reverse=True)
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            match = _NAME.fullmatch(name)
            if match and f"3.{match[1]}" not in found:
                program = os.path.realpath(folder / name)
                if os.access(program, os.X_OK) and _is_native(program):
                    found[f"3.{match[1]}"] = program
    return found


def _is_native(program: str) -> bool:
    """Whether a file is a binary rather than a script, as shims are."""
    try:
        with open(program, "rb") as file:
            return file.read(2) not in (b"#!", b"")
    except OSError:
        return False
