"""What torch counts of its own work: graphs, guards that failed, seconds of compiling, kernels.

Read from ``torch/_dynamo/utils.py`` and ``torch/_inductor/metrics.py`` where they have been imported; nothing
is hooked.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

#: Under these names Dynamo keeps how long it took to compile a frame; the first that is there counts.
_FORWARD = ("entire_frame_compile", "_compile.compile_inner", "_compile.<locals>.compile_inner", "_compile")
#: A backward graph is compiled when it is first run, which is no part of the above.
_BACKWARD = ("entire_backward_compile", "compile_fx.<locals>.bw_compiler", "bw_compiler")


def _utils() -> Any:
    return sys.modules.get("torch._dynamo.utils")


def counters() -> Dict[str, Dict[str, int]]:
    """What Dynamo counted, by group: graphs, graph breaks, ..."""
    return {
        str(group): {str(k): int(v) for k, v in values.items()}
        for group, values in getattr(_utils(), "counters", {}).items()
        if values
    }


def graphs() -> int:
    """How many graphs were compiled so far."""
    return int(getattr(_utils(), "counters", {}).get("stats", {}).get("unique_graphs", 0))


def guard_failures() -> Dict[Any, Any]:
    """The reasons for which code was compiled again, by code object."""
    return dict(getattr(_utils(), "guard_failures", None) or {})


def graph_break_reasons() -> List[Any]:
    """Why Dynamo ended graphs, with the user's stack."""
    return list(getattr(_utils(), "graph_break_reasons", None) or [])


def compilation_limit() -> int:
    """How often code may be compiled; 0 where that is not known."""
    config = sys.modules.get("torch._dynamo.config")
    for name in ("recompile_limit", "cache_size_limit"):
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    return 0


def kernels() -> Optional[int]:
    """How many kernels Inductor generated."""
    count = getattr(sys.modules.get("torch._inductor.metrics"), "generated_kernel_count", None)
    return int(count) if count is not None else None


def compile_seconds() -> Optional[float]:
    """Seconds that Dynamo and the backend took; None where torch does not keep them."""
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


def recompiles() -> Optional[int]:
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
