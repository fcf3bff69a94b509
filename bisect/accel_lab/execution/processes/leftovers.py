"""What a run has left: its processes, by the marker of the run, and its temporary folders, by their names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path

from accel_lab.core.probe import Limits
from accel_lab.execution.run_folder.copies import remove

from .guardian import RUN
from .watch import Watch

_PREFIX = "accel-lab-"
#: So much of a run's id is in the names of its temporary folders: they are short, for sockets lie in them.
_DIGITS = 12


def end_run(run: str, known: Collection[tuple[int, int]] = ()) -> int:
    """End every process of a run and remove its temporary folders; how many processes there were.

    A process is of the run if ``ACCEL_LAB_RUN`` in its environment says so, if it is among ``known`` (pid and
    start), or comes of such a one. The kernel shows us the environments of our own user's processes only;
    to root it shows all, and there the id, which nobody can guess, is the proof.

    Raises :class:`LabError` where one cannot be killed.
    """
    if not is_id(run):
        return 0
    ended = Watch(0, marker=run, variable=RUN, known=known, limits=Limits(), outputs=()).kill()
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{run[:_DIGITS]}-*"):
        if not folder.is_symlink() and folder.lstat().st_uid == os.geteuid():
            remove(folder)
    return ended


def temporary_folder(run: str) -> Path:
    """A new, empty folder for what one probe of the run writes to its ``TMPDIR``.

    Not below the run's own: the path of a socket has 107 characters at most.
    """
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{run[:_DIGITS]}-"))


def is_id(run: str) -> bool:
    """Whether this is a run's id: it may come from a file that anybody wrote."""
    return len(run) == 32 and all(letter in "0123456789abcdef" for letter in run)
