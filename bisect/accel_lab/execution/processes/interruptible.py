"""Handles Ctrl-C and termination signals: stops the probes and keeps the results."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from types import FrameType

#: Sent by a service manager or ``kill``, by a closed terminal, and by Ctrl-\\.
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Exit code of an interrupted run (DESIGN section 10).
INTERRUPTED = 130


class Interruptible:
    """Turns the first Ctrl-C into a stop of the probes, so that the results so far are kept."""

    def __init__(self, stops: Sequence[Callable[[], None]]) -> None:
        self._stops = stops

    def __enter__(self) -> None:
        self._old = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._stop)

    def _stop(self, *_: object) -> None:
        for stop in self._stops:
            stop()
        signal.signal(signal.SIGINT, self._old or signal.default_int_handler)

    def __exit__(self, *exc: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)


class StopSignals:
    """Makes TERM, HUP and QUIT act like Ctrl-C. ``number`` is the first signal that came."""

    def __init__(self) -> None:
        self.number: int | None = None

    def heed(self) -> StopSignals:
        """Installs the handlers; a signal that the caller ignores (``nohup``) stays ignored."""
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, self._stop)
        return self

    def exit_code(self, code: int) -> int:
        """Returns 128 + the signal's number if such a signal interrupted the run, else ``code``."""
        return 128 + self.number if code == INTERRUPTED and self.number is not None else code

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        if number == signal.SIGHUP:
            _leave_terminal()
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # SIGINT is ignored, as in a background job of a shell script
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)


def _leave_terminal() -> None:
    """Redirects output from the closed terminal to the null device, where writing does not fail."""
    for descriptor in (1, 2):
        try:
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
        except OSError:
            continue
