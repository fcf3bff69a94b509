"""Follows a run of another process, such as one started on a terminal, by the files in its folder.

The folder is untrusted: it is read within limits and shown as text. Such a run has no stop button, because
its lock names a pid, and a forged folder could name any process of the user's.
"""

from __future__ import annotations

import time
from pathlib import Path

from accel_lab.execution.run_folder.lock import Holder, user_of
from accel_lab.execution.run_folder.marker import made_by
from accel_lab.execution.run_folder.progress_file import NAME as PROGRESS
from accel_lab.reporting.runs.kept_run import UNFINISHED, kept_run

from .journal_tail import JournalTail
from .live import State
from .progress_lines import Line, ProgressLines

#: Longest time shown, in case the clock was set back or the lock has a false time.
_MOST_S = 30 * 86_400.0


class FollowedRun:
    """A run of another process, as the page of a bisection shows it; thread-safe.

    It counts as running while a process holds the folder's lock, which the kernel releases when the process
    ends.
    """

    def __init__(self, folder: Path) -> None:
        self.run: Path | None = folder
        self.exit_code: int | None = None
        self._folder = folder
        self._progress, self._journal = ProgressLines(folder / PROGRESS), JournalTail(folder)
        self._user: Holder | None = user_of(folder)

    @property
    def state(self) -> State:
        """RUNNING while a process holds the folder's lock, else OVER."""
        self._user = user_of(self._folder)
        return State.OVER if self._user is None else State.RUNNING

    @property
    def started(self) -> float | None:
        """Start time in seconds since the epoch, or None if no process uses the folder."""
        return None if self._user is None else self._user.since

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        since = self.started
        return 0.0 if since is None else min(max(time.time() - since, 0.0), _MOST_S)

    @property
    def command(self) -> str:
        """The command in the lock file; empty if the run is over."""
        return self._user.command if self._user is not None else ""

    @property
    def said(self) -> str:
        """How to end the run, or how it ended."""
        if self._user is not None:
            where = "It was not started from this page"
            pid = self._user.pid
            return f"{where}: end it with Ctrl-C on its terminal" + (
                f", or `kill -INT {pid}`." if pid else "."
            )
        kept = kept_run(self._folder, made_by(self._folder))
        if kept is None or kept.verdict == UNFINISHED:
            return "The run ended without writing its result."
        return f"It has ended: {kept.verdict}."

    def lines(self) -> list[Line]:
        """Returns its progress so far."""
        return self._progress.read()

    def running(self) -> list[str]:
        """Returns the running probes."""
        return self._journal.running() if self._user is not None else []

    def result(self) -> str:
        """Returns an empty string: the result is in the run's report."""
        return ""
