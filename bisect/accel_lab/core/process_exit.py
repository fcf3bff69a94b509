"""The exit state of a process, run on this machine or in a container."""

from __future__ import annotations

from dataclasses import dataclass

from .record import Record


@dataclass(frozen=True, kw_only=True)
class ProcessExit(Record):
    """The exit state of a process.

    ``signal`` is a signal that we did not send. ``limit`` is why we killed it: timeout, memory, output,
    processes, disk or interrupted; exit code and signal are then None. Output beyond the limit always gives
    ``output``, even if the process exited before we checked, so that the result does not depend on timing.
    """

    forbids_extra_keys = True

    exit_code: int | None = None
    signal: int | None = None
    limit: str | None = None
    seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def summary(self) -> str:
        """The exit state as text: ``timeout``, ``signal 11``, ``exit code 1``."""
        if self.limit is not None:
            return self.limit
        return f"signal {self.signal}" if self.signal is not None else f"exit code {self.exit_code}"
