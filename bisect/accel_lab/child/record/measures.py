"""Numbers of a run that may become worse from release to release: time, memory, graph breaks, kernels."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Optional

from ..torch_internals import metrics

MEBI = 1 << 20
MAX_CALLS = 100_000
#: What a call takes beyond what was resident is distinguished from nothing only above this.
LEAST_MB = 16.0


class Meter:
    """Times the outermost calls of compiled regions; nothing is recorded in such a run."""

    def __init__(self) -> None:
        self._seconds: List[float] = []
        self._memory: List[float] = []
        self._compiled: List[bool] = []

    def begin(self) -> Any:
        """What :meth:`end` needs to know."""
        _wait()
        _reset_peak()
        return metrics.graphs(), _memory_mb(), time.perf_counter()

    def end(self, before: Any) -> None:
        """A call has returned, or raised."""
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
        """The numbers; None for what cannot be measured on this release or in this run."""
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
    """The calls that compiled nothing, where there are any: a compiler needs memory of its own."""
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
    """``torch.cuda``, once the script uses it."""
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
    """A size of ``/proc/self/status`` in MB; None where there is none."""
    try:
        with open("/proc/self/status") as rows:
            for row in rows:
                if row.startswith(name + ":"):
                    return int(row.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
