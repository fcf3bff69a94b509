"""Drives or replaces torch's compiler bisector (``torch/_inductor/compiler_bisector.py``, since 2.6)."""

from __future__ import annotations

import os
from typing import Any, Callable


def start_bisector(backend: Any, subsystem: str, maximum: int) -> bool:
    """Sets up torch's compiler bisector by its environment variables; False if this torch has none.

    ``maximum`` is how often the subsystem may be applied.
    """
    try:
        from torch._inductor.compiler_bisector import CompilerBisector, get_env_val
    except ImportError:
        return False
    names = {
        "TORCH_BISECT_BACKEND": backend,
        "TORCH_BISECT_SUBSYSTEM": subsystem,
        "TORCH_BISECT_MAX": maximum,
    }
    for name, value in names.items():
        if value is not None and (subsystem is not None or name == "TORCH_BISECT_BACKEND"):
            os.environ[name] = str(value)
    clear = getattr(get_env_val, "cache_clear", None)
    if clear is not None:
        clear()
    CompilerBisector.bisection_enabled = True  # torch decides this at import, before the variables were set
    return bool(CompilerBisector.get_backend() == backend)


def replace_bisector(ask: Callable[[str, Any], Any]) -> bool:
    """Replaces ``disable_subsystem`` by ``ask(subsystem, debug_info)``; False if this torch lacks it."""
    try:
        from torch._inductor.compiler_bisector import CompilerBisector
    except ImportError:
        return False
    if not hasattr(CompilerBisector, "disable_subsystem"):
        return False

    def disable_subsystem(cls: Any, backend: Any, subsystem: str, debug_info: Any = None) -> Any:
        return ask(subsystem, debug_info)

    CompilerBisector.disable_subsystem = classmethod(disable_subsystem)
    return True
