"""A run that another process works in, such as one that was started on a terminal, followed by its files.

What its folder says is a stranger's word: it is read with limits and shown as text. So such a run has no
stop button. Its lock names a process, and a folder made by hand could name any process of the user's.
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

#: A clock that was set back, or a false time in a lock, shows no longer time than this.
_MOST_S = 30 * 86_400.0


class FollowedRun:
    """One run's folder as the page of a bisection shows it; any thread may ask.

    It runs as long as a process holds the folder's lock, which the kernel gives up with that process.
    """

    def __init__(self, folder: Path) -> None:
        self.run: Path | None = folder
        self.exit_code: int | None = None
        self._folder = folder
        self._progress, self._journal = ProgressLines(folder / PROGRESS), JournalTail(folder)
        self._user: Holder | None = user_of(folder)

    @property
    def state(self) -> State:
        """Whether somebody works in the folder now."""
        self._user = user_of(self._folder)
        return State.OVER if self._user is None else State.RUNNING

    @property
    def started(self) -> float | None:
        """When it was started, in seconds since the epoch; None where nobody works in it."""
        return None if self._user is None else self._user.since

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        since = self.started
        return 0.0 if since is None else min(max(time.time() - since, 0.0), _MOST_S)

    @property
    def command(self) -> str:
        """The command that works in it, as its lock says; empty where it is over."""
        return self._user.command if self._user is not None else ""

    @property
    def said(self) -> str:
        """Where it was started, or how it ended."""
        if self._user is not None:
            where = "It was not started from this page"
            pid = self._user.pid
            return f"{where}: end it with Ctrl-C on its terminal" + (
                f", or `kill -INT {pid}`." if pid else "."
            )
        kept = kept_run(self._folder, made_by(self._folder))
        if kept is None or kept.verdict == UNFINISHED:
            return "Nobody works in it any more. It ended before its result was written."
        return f"It has ended: {kept.verdict}."

    def lines(self) -> list[Line]:
        """Its progress until now."""
        return self._progress.read()

    def running(self) -> list[str]:
        """The probes that are going on."""
        return self._journal.running() if self._user is not None else []

    def result(self) -> str:
        """Empty: its result is in its report."""
        return ""
