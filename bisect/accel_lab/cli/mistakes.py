"""Handles an unexpected exception: a number to quote, and the traceback in a file."""

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
    """One line for an exception that ends a command, and the exit code (DESIGN section 10)."""
    if isinstance(error, LabError):
        text, code = str(error), error.exit_code
    elif isinstance(error, OSError):
        text, code = f"{error.strerror or error}: {error.filename or ''}", 3
    else:
        text, code = keep(error), 3
    return " ".join(text.split()), code


def keep(error: BaseException) -> str:
    """Write the traceback to the run's folder, else to a temporary file; the line that says so.

    The number is the same wherever the same mistake is made: it is a hash over the places of the traceback,
    not over the message.
    """
    places = [
        f"{type(link).__name__} {os.path.basename(frame.filename)} {frame.name}"
        for link in _links(error)
        for frame in traceback.extract_tb(link.__traceback__)
    ]
    number = hashlib.sha256("\n".join([__version__, *places]).encode("utf-8", "replace")).hexdigest()[:8]
    text = "".join(traceback.format_exception(error))
    said = shorten(" ".join(printable(f"{type(error).__name__}: {error}").split()), _MESSAGE)
    where = _written(f"accel-lab {__version__}, mistake {number}\n\n{text}", number)
    return (
        f"a mistake of the lab, number {number} ({said}). "
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
    """Where the text lies; None where no file can be written. A new file: the folder's are a script's too."""
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
    """The folder of the run that this process has, if it came that far; nothing is imported to find out."""
    request: Any = sys.modules.get("accel_lab.request")
    return request.current_folder() if request is not None else None
