"""How a process ended, whoever ran it: this machine or a container."""

from __future__ import annotations

from dataclasses import dataclass

from .record import Record


@dataclass(frozen=True, kw_only=True)
class Ended(Record):
    """How a process ended.

    ``signal`` is the one that ended it by itself, not ours. ``limit`` names why we ended it:
    timeout, memory, output, processes, disk or interrupted; then there is neither exit code nor signal.
    Output beyond the limit counts as ``output`` also if the process was done before we looked, so
    that the answer does not depend on who was faster.
    """

    refuses_more = True

    exit_code: int | None = None
    signal: int | None = None
    limit: str | None = None
    seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def how(self) -> str:
        """``timeout``, ``signal 11``, ``exit code 1``."""
        if self.limit is not None:
            return self.limit
        return f"signal {self.signal}" if self.signal is not None else f"exit code {self.exit_code}"
