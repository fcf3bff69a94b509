"""Prints progress on standard error: a line for each probe with its time and its result."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.text import control, printable
from accel_lab.execution.run_folder.progress_file import ProgressFile

from .probe_words import question

#: Moves to the first column; erases the line.
_START, _ERASE = control("\r"), control("\x1b[2K")


class Progress:
    """A listener of the prober. On a terminal the running probes are shown in a line that is overwritten.

    Probes of another program than the user's are candidates of the reduction. There are hundreds, so only
    those that make the repro smaller are printed. All lines also go to a file in the run's folder, which
    ``accel-lab dashboard`` follows.
    """

    def __init__(self, *, quiet: bool, program: str | None = None, folder: Path | None = None) -> None:
        self._quiet = quiet
        self._program = program
        self._file = ProgressFile(folder) if folder is not None else None
        self._live = not quiet and sys.stderr.isatty()
        self._colour = self._live and "NO_COLOR" not in os.environ
        self._running: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._asks_anew = False
        self._phase = ""
        self._until: float | None = None

    def __call__(self, event: str, probe: Probe, outcome: Outcome | None) -> None:
        if event == "anew":
            if not self._asks_anew:  # each release of a line has its own folder and repeats the event
                self.say("The journal is from another version of the lab; all probes are run again.")
            self._asks_anew = True
            return
        with self._lock:
            if event == "start":
                self._running[probe.key] = (_label(probe), time.monotonic())
            else:
                self._running.pop(probe.key, None)
                assert outcome is not None
                self._count += 1
                self._clear()
                if self._program is None or probe.program.path == self._program:
                    self._print(*self._line(probe, outcome, cached=event == "cached"))
            self._show_running()

    def smaller(self, note: str, tried: int, source: str) -> None:
        """Reports a smaller program that still fails, found after ``tried`` candidates."""
        lines = sum(1 for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#"))
        with self._lock:
            self._clear()
            self._print(f"▼ {lines:4d} lines after {tried} candidates  {_short(note, 60)}")
            self._show_running()

    def phase(self, words: str, seconds: float | None) -> None:
        """Reports that a phase of the search begins; ``seconds`` is its upper limit, None if it has none."""
        with self._lock:
            self._phase = words.partition(":")[0]
            self._until = None if seconds is None else time.monotonic() + seconds
        self.say(f"… {words}" + ("" if seconds is None else f" (at most {_minutes(seconds)} more)"))

    def release(self, event: str, version: str, words: str) -> None:
        """Reports an event of a release: environment built, release judged, flip examined."""
        if event not in _RELEASE:
            return
        mark, text = _RELEASE[event]
        with self._lock:
            self._clear()
            self._print(f"{mark} torch {version:10s} {_short(f'{text} {words}'.strip(), 90)}")
            self._show_running()

    def say(self, words: str) -> None:
        """Prints one line about work that is not a probe."""
        with self._lock:
            self._clear()
            self._print(words)

    def _line(self, probe: Probe, outcome: Outcome, cached: bool) -> tuple[str, str]:
        """Returns the line of a probe, and its mark in colour for the terminal."""
        result, colour = _result(outcome)
        mark = {"32": "✓", "31": "✗"}.get(colour, "·")
        shown = control(f"\x1b[{colour}m") + mark + control("\x1b[0m") if self._colour else mark
        took = "  (known)" if cached else f"{outcome.seconds:6.1f} s"
        return f"{mark} {self._count:3d} {_short(_label(probe), 50):50s} {took}  {result}", shown

    def _show_running(self) -> None:
        if self._live and self._running:
            names = ", ".join(_short(label, 30) for label, _ in self._running.values())
            sys.stderr.write(_START + f"… {self._remains()}{names}"[: _width() - 2])
            sys.stderr.flush()

    def _remains(self) -> str:
        if not self._phase:
            return ""
        left = "" if self._until is None else f", at most {_minutes(self._until - time.monotonic())} more"
        return f"{self._phase}{left}: "

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write(_START + _ERASE)

    def _print(self, line: str, mark: str = "") -> None:
        """Prints one line; on the terminal ``mark`` replaces its first character."""
        if self._file is not None:
            self._file.write(line)
        if not self._quiet:
            sys.stderr.write((mark + line[1:] if mark else line) + "\n")
            sys.stderr.flush()

    def done(self) -> None:
        """Clears the terminal's line and closes the file in the run's folder."""
        if self._file is not None:
            self._file.close()
        self._clear()


#: Mark and text for each event of a release.
_RELEASE = {
    "making": ("…", "building its environment"),
    "made": ("+", "environment built:"),
    "judged": ("=", ""),
    "measured": ("=", ""),
    "looking": ("?", "the ladder on"),
}


def _label(probe: Probe) -> str:
    """Describes the probe, with its release if there are several."""
    release = probe.environment.release
    return f"{release}: {question(probe)}" if release else question(probe)


def _result(outcome: Outcome) -> tuple[str, str]:
    if not outcome.was_run:
        return "not applicable", "36"
    signature = signature_of(outcome)
    if signature is None:
        return "completes", "32"
    return _short("fails: " + signature.line, 60), "31"


def _minutes(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def _short(text: str, width: int) -> str:
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns
    except OSError:
        return 80
