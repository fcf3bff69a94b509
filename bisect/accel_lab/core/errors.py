"""What the lab itself can fail with: one line that says what happened and what to do next."""

from __future__ import annotations


class LabError(Exception):
    """The lab could not do it: an environment, a dependency, a disk (exit code 3)."""

    exit_code = 3


class DiskFull(LabError):
    """There is no room on the disk (exit code 3); what was answered is kept, and the run can be resumed."""


class Unanswered(LabError):
    """An earlier run does not hold an answer that is needed, and nothing may be run to find it."""


class OutOfTime(LabError):
    """The time that the bisection was given is up: a probe was not started (``core.time_budget``)."""


class UsageError(LabError):
    """The caller asked for something that makes no sense: a missing file, a wrong option (exit code 2)."""

    exit_code = 2
