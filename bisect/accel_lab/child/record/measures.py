"""Measures what may regress between releases: latency, compile time, memory, graph breaks, kernels."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Optional

from ..torch_internals import metrics

MEBI = 1 << 20
MAX_CALLS = 100_000
#: Peak memory of a call beyond the start is reported as at least this many MB; less is noise.
LEAST_MB = 16.0


class Meter:
    """Measures time and memory of the outermost calls of compiled regions; such a run records no values."""

    def __init__(self) -> None:
        self._seconds: List[float] = []
        self._memory: List[float] = []
        self._compiled: List[bool] = []

    def begin(self) -> Any:
        """Starts a call; returns the state that :meth:`end` needs."""
        _wait()
        _reset_peak()
        return metrics.graphs(), _memory_mb(), time.perf_counter()

    def end(self, before: Any) -> None:
        """Ends a call that has returned or raised."""
        _wait()
        now = time.perf_counter()
        graphs, memory, began = before
        if len(self._seconds) >= MAX_CALLS:
            return
        self._seconds.append(now - began)
        self._compiled.append(metrics.graphs() != graphs)
        peak = _peak_mb()
        if memory is not None and peak is not None:
            self._memory.append(max(LEAST_MB, peak - memory))

    def facts(self) -> Dict[str, Any]:
        """Returns the measures; None for one that this torch or this run cannot give.

        ``latency``: median seconds of the calls that compiled nothing. ``compile_time``: seconds.
        ``peak_memory``: MB.
        """
        steady = [s for s, compiled in zip(self._seconds, self._compiled) if not compiled]
        whole = len(self._memory) == len(self._compiled)
        later = _later(self._memory, self._compiled) if whole else self._memory
        return {
            "calls": len(self._seconds),
            "compiling_calls": sum(self._compiled),
            "latency": _median(steady),
            "compile_time": metrics.compile_seconds(),
            "peak_memory": max(later) if later else None,
            "graph_breaks": sum(metrics.counters().get("graph_break", {}).values()),
            "recompiles": metrics.recompiles(),
            "kernels": metrics.kernels(),
        }


def _later(memory: List[float], compiled: List[bool]) -> List[float]:
    """The memory of calls that compiled nothing, or of all calls if every one compiled."""
    later = [mb for mb, compiling in zip(memory, compiled) if not compiling]
    return later or memory


def _median(values: List[float]) -> Optional[float]:
    if not values:
        return None
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _cuda() -> Any:
    """``torch.cuda`` if the script uses it, else None."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


def _wait() -> None:
    cuda = _cuda()
    if cuda is not None:
        cuda.synchronize()


def _reset_peak() -> None:
    cuda = _cuda()
    if cuda is not None:
        cuda.reset_peak_memory_stats()
        return
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")  # see proc(5): resets VmHWM
    except OSError:
        return


def _memory_mb() -> Optional[float]:
    cuda = _cuda()
    if cuda is not None:
        return float(cuda.memory_allocated()) / MEBI
    return _status("VmRSS")


def _peak_mb() -> Optional[float]:
    cuda = _cuda()
    if cuda is not None:
        return float(cuda.max_memory_allocated()) / MEBI
    return _status("VmHWM")


def _status(name: str) -> Optional[float]:
    """A size from ``/proc/self/status`` in MB; None if it is missing."""
    try:
        with open("/proc/self/status") as rows:
            for row in rows:
                if row.startswith(name + ":"):
                    return int(row.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
