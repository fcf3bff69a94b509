"""Ctrl-C while probes run: they are stopped, and what was found is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence


class Interruptible:
    """Turns the first Ctrl-C into a stop of the probes, so that what was found is kept."""

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
