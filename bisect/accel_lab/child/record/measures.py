"""Numbers of a run that may become worse from release to release: time, memory, graph breaks, kernels."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Optional

MEBI = 1 << 20
MAX_CALLS = 100_000
#: What a call takes beyond what was resident is told from nothing only above this.
LEAST_MB = 16.0

#: Under these names Dynamo keeps how long it took to compile a frame; the first that is there counts.
_FORWARD = ("entire_frame_compile", "_compile.compile_inner", "_compile.<locals>.compile_inner", "_compile")
#: A backward graph is compiled when it is first run, which is no part of the above.
_BACKWARD = ("entire_backward_compile", "compile_fx.<locals>.bw_compiler", "bw_compiler")


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
        return _graphs(), _memory_mb(), time.perf_counter()

    def end(self, before: Any) -> None:
        """A call has returned, or raised."""
        _wait()
        now = time.perf_counter()
        graphs, memory, began = before
        if len(self._seconds) >= MAX_CALLS:
            return
        self._seconds.append(now - began)
        self._compiled.append(_graphs() != graphs)
        peak = _peak_mb()
        if memory is not None and peak is not None:
            self._memory.append(max(LEAST_MB, peak - memory))

    def facts(self) -> Dict[str, Any]:
        """The numbers; None for what cannot be told on this release or in this run."""
        steady = [s for s, compiled in zip(self._seconds, self._compiled) if not compiled]
        whole = len(self._memory) == len(self._compiled)
        later = _later(self._memory, self._compiled) if whole else self._memory
        return {
            "calls": len(self._seconds),
            "compiling_calls": sum(self._compiled),
            "latency": _median(steady),
            "compile_time": _compile_time(),
            "peak_memory": max(later) if later else None,
            "graph_breaks": sum(_counters().get("graph_break", {}).values()),
            "recompiles": _recompiles(),
            "kernels": _kernels(),
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


def _utils() -> Any:
    return sys.modules.get("torch._dynamo.utils")


def _counters() -> Any:
    return getattr(_utils(), "counters", {})


def _graphs() -> int:
    return int(_counters().get("stats", {}).get("unique_graphs", 0))


def _kernels() -> Optional[int]:
    count = getattr(sys.modules.get("torch._inductor.metrics"), "generated_kernel_count", None)
    return int(count) if count is not None else None


def _compile_time() -> Optional[float]:
    """Seconds that Dynamo and the backend took, as torch keeps them (``torch/_dynamo/utils.py``)."""
    kept = None
    for name in ("compilation_time_metrics", "compilation_metrics"):
        found = getattr(_utils(), name, None)
        if isinstance(found, dict):
            kept = found
            break
    if kept is None:
        return None
    forward = next((kept[name] for name in _FORWARD if kept.get(name)), None)
    if forward is None:
        return None
    backward: List[float] = next((kept[name] for name in _BACKWARD if kept.get(name)), [])
    return float(sum(forward)) + float(sum(backward))


def _recompiles() -> Optional[int]:
    """Compilations of a piece of code beyond its first; None where torch keeps no list of them."""
    getter = getattr(_utils(), "get_compilation_metrics", None)
    if getter is None:
        return None
    seen: Dict[Any, int] = {}
    for row in getter():
        if getattr(row, "fail_type", None) is not None or getattr(row, "co_name", None) is None:
            continue
        code = (row.co_name, getattr(row, "co_filename", ""), getattr(row, "co_firstlineno", 0))
        seen[code] = seen.get(code, 0) + 1
    return sum(count - 1 for count in seen.values())


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
