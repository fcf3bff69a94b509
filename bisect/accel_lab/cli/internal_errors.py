"""Reports an unexpected exception by a number, and keeps its traceback in a file."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from accel_lab import __version__
from accel_lab.core.errors import LabError
from accel_lab.core.text import printable, shorten

_MESSAGE = 160


def explained(error: Exception) -> tuple[str, int]:
    """Returns the message and the exit code for an exception that ended a command (DESIGN section 10)."""
    if isinstance(error, LabError):
        text, code = str(error), error.exit_code
    elif isinstance(error, OSError):
        text, code = f"{error.strerror or error}: {error.filename or ''}", 3
    else:
        text, code = keep(error), 3
    return " ".join(text.split()), code


def keep(error: BaseException) -> str:
    """Writes the traceback to the run's folder or a temporary file, and returns the message for the user.

    The number is a hash of the traceback's functions and the lab's version, not of the message: the same bug
    gets the same number everywhere.
    """
    places = [
        f"{type(link).__name__} {os.path.basename(frame.filename)} {frame.name}"
        for link in _links(error)
        for frame in traceback.extract_tb(link.__traceback__)
    ]
    number = hashlib.sha256("\n".join([__version__, *places]).encode("utf-8", "replace")).hexdigest()[:8]
    text = "".join(traceback.format_exception(error))
    said = shorten(" ".join(printable(f"{type(error).__name__}: {error}").split()), _MESSAGE)
    where = _written(f"accel-lab {__version__}, internal error {number}\n\n{text}", number)
    return (
        f"internal error {number} ({said}). "
        f"Please report it with the number{f' and with {where}' if where else ''}"
    )


def _links(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found and len(found) < 8:
        found.append(link)
        link = link.__cause__ or link.__context__
    return found


def _written(text: str, number: str) -> Path | None:
    """Writes the text to a new file (a script writes to the folder too); returns its path, or None."""
    for folder in (_run_folder(), None):
        try:
            handle, name = tempfile.mkstemp(prefix=f"mistake-{number}-", suffix=".txt", dir=folder)
            with os.fdopen(handle, "wb") as stream:
                stream.write(text.encode("utf-8", "backslashreplace"))
        except OSError:
            continue
        return Path(name)
    return None


def _run_folder() -> Path | None:
    """Returns this process's run folder, or None; it never imports ``accel_lab.request``."""
    request: Any = sys.modules.get("accel_lab.request")
    return request.current_folder() if request is not None else None
