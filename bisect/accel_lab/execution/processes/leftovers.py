"""Removes what a run left behind: processes with the run's marker, and its temporary folders."""

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
#: Digits of the run's id in the names of its temporary folders; paths of sockets must stay short.
_DIGITS = 12


def end_run(run: str, known: Collection[tuple[int, int]] = ()) -> int:
    """Kills every process of a run and removes its temporary folders; returns the number of processes.

    A process belongs to the run if its environment has the id in ``ACCEL_LAB_RUN``, if it is among ``known``
    (pid and start), or if it descends from such a process. The kernel shows only the environments of the
    user's own processes. Root sees all of them; there the unguessable id is the proof.

    Raises :class:`LabError` if a process cannot be killed.
    """
    if not is_id(run):
        return 0
    ended = Watch(0, marker=run, variable=RUN, known=known, limits=Limits(), outputs=()).kill()
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{run[:_DIGITS]}-*"):
        if not folder.is_symlink() and folder.lstat().st_uid == os.geteuid():
            remove(folder)
    return ended


def temporary_folder(run: str) -> Path:
    """Makes a new, empty folder for the ``TMPDIR`` of one probe.

    It is not below the run's folder, because the path of a socket has at most 107 characters.
    """
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{run[:_DIGITS]}-"))


def is_id(run: str) -> bool:
    """Whether the text has the form of a run id; it may come from an untrusted file."""
    return len(run) == 32 and all(letter in "0123456789abcdef" for letter in run)
