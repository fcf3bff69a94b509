"""Statistics of the mock over all graphs of this process: counts, bytes, fallbacks, violations, seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Statistics:
    """Counters that all runs update.

    ``fallbacks``: operator -> ``{"count", "reason", "source"}``. ``violations``: one for each violated
    constraint of a graph. ``seconds``: by phase (lower, verify, to_device, kernels, host, outputs).
    """

    graphs: int = 0
    programs: int = 0
    runs: int = 0
    kernels: int = 0
    kernels_by_unit: dict[str, int] = field(default_factory=dict)
    kernels_generated: int = 0
    transfers_to_device: int = 0
    transfers_to_host: int = 0
    transfers_skipped: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    fallbacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    violations: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    memory_peak: int = 0

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Context that adds its duration to ``seconds[part]``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start

    def fell_back(self, operator: str, reason: str, source: str) -> None:
        """Counts one call of an operator on the host."""
        entry = self.fallbacks.setdefault(operator, {"count": 0, "reason": reason, "source": source})
        entry["count"] += 1

    def to_json(self) -> dict[str, Any]:
        """All counters."""
        return {
            "graphs": self.graphs,
            "programs": self.programs,
            "runs": self.runs,
            "kernels_generated": self.kernels_generated,
            "kernels": self.kernels,
            "kernels_by_unit": dict(sorted(self.kernels_by_unit.items())),
            "transfers": {
                "to_device": self.transfers_to_device,
                "to_host": self.transfers_to_host,
                "skipped": self.transfers_skipped,
                "bytes_to_device": self.bytes_to_device,
                "bytes_to_host": self.bytes_to_host,
            },
            "fallbacks": {name: dict(entry) for name, entry in sorted(self.fallbacks.items())},
            "violations": [dict(entry) for entry in self.violations],
            "seconds": {name: round(value, 6) for name, value in sorted(self.seconds.items())},
            "memory_peak": self.memory_peak,
        }


_collected = Statistics()


def collected() -> Statistics:
    """Returns the counters of this process."""
    return _collected


def reset() -> Statistics:
    """Resets the counters; returns the old ones."""
    global _collected
    old, _collected = _collected, Statistics()
    return old
