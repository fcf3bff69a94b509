"""Reads torch's own counters: graphs, guard failures, compile seconds, kernels.

Reads ``torch/_dynamo/utils.py`` and ``torch/_inductor/metrics.py`` if they are imported; hooks nothing.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

#: Dynamo's names for the time to compile a frame; the first one present is used.
_FORWARD = ("entire_frame_compile", "_compile.compile_inner", "_compile.<locals>.compile_inner", "_compile")
#: The same for backward graphs, which are compiled at their first run and not included above.
_BACKWARD = ("entire_backward_compile", "compile_fx.<locals>.bw_compiler", "bw_compiler")


def _utils() -> Any:
    return sys.modules.get("torch._dynamo.utils")


def counters() -> Dict[str, Dict[str, int]]:
    """Returns Dynamo's counters by group (``stats``, ``graph_break``, ...); empty groups are left out."""
    return {
        str(group): {str(k): int(v) for k, v in values.items()}
        for group, values in getattr(_utils(), "counters", {}).items()
        if values
    }


def graphs() -> int:
    """Returns the number of graphs compiled so far."""
    return int(getattr(_utils(), "counters", {}).get("stats", {}).get("unique_graphs", 0))


def guard_failures() -> Dict[Any, Any]:
    """Returns the reasons for recompilations, by code object."""
    return dict(getattr(_utils(), "guard_failures", None) or {})


def graph_break_reasons() -> List[Any]:
    """Returns the graph breaks, each with its reason and the user's stack."""
    return list(getattr(_utils(), "graph_break_reasons", None) or [])


def compilation_limit() -> int:
    """Returns Dynamo's recompile limit; 0 if it is not known."""
    config = sys.modules.get("torch._dynamo.config")
    for name in ("recompile_limit", "cache_size_limit"):
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    return 0


def kernels() -> Optional[int]:
    """Returns the number of kernels that Inductor generated; None if Inductor is not imported."""
    count = getattr(sys.modules.get("torch._inductor.metrics"), "generated_kernel_count", None)
    return int(count) if count is not None else None


def compile_seconds() -> Optional[float]:
    """Returns the seconds of all compilations, forward and backward; None if torch does not keep them."""
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
    """Returns the number of recompilations; None if torch keeps no list of compilations."""
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
