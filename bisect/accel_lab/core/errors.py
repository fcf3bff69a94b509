"""The lab's own errors; each message is one line that says what happened and what to do next."""

from __future__ import annotations


class LabError(Exception):
    """The lab failed: an environment, a dependency, a disk (exit code 3)."""

    exit_code = 3


class DiskFull(LabError):
    """The disk is full (exit code 3); finished probes are kept, and the run can be resumed."""


class Unanswered(LabError):
    """An earlier run lacks a needed answer, and no probe may be run to get it."""


class OutOfTime(LabError):
    """The time budget is used up; a probe was not started (``core.time_budget``)."""


class UsageError(LabError):
    """Invalid usage: a missing file, a wrong option (exit code 2)."""

    exit_code = 2
