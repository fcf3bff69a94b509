"""What Dynamo keeps of its compilations: their metrics, and cache entries with guards.

Names in torch, by feature: ``_dynamo/utils.py`` (``_compilation_metrics``; 2.1 on),
``_dynamo/convert_frame.py`` (``input_codes``; 2.0 on), ``_dynamo/eval_frame.py``
(``_debug_get_cache_entry_list``; 2.3 on), and the function that says why a frame is compiled again, whose
name got a plural ``s`` in 2.7. Guard failures and graph breaks are in :mod:`.metrics`.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, Callable, List, Optional

#: Newest first.
_REASONS = ("get_and_maybe_log_recompilation_reasons", "get_and_maybe_log_recompilation_reason")


def metrics() -> List[Any]:
    """``CompilationMetrics`` of the compilations so far, oldest first; torch keeps the last 64."""
    return list(getattr(_module("utils"), "_compilation_metrics", None) or [])


def keep_metrics(most: int) -> None:
    """Let torch keep the metrics of ``most`` compilations."""
    utils = _module("utils")
    kept = getattr(utils, "_compilation_metrics", None)
    if kept is not None and hasattr(kept, "maxlen"):
        utils._compilation_metrics = type(kept)(kept, maxlen=most)


def codes() -> List[CodeType]:
    """Code objects that Dynamo was asked to compile and that still live."""
    seen = getattr(getattr(_module("convert_frame"), "input_codes", None), "seen", None) or []
    found = [one if isinstance(one, CodeType) else one() for one in list(seen)]
    return [code for code in found if isinstance(code, CodeType)]


def cache_entries(code: CodeType) -> List[Any]:
    """The compiled versions of a code object, as Dynamo holds them now."""
    listed = getattr(_module("eval_frame"), "_debug_get_cache_entry_list", None)
    if listed is None:
        return []
    try:
        return list(listed(code))
    except Exception:
        return []  # a code object that Dynamo never kept anything for


def guards(entry: Any) -> List[str]:
    """The guards of a compiled version, as Python expressions."""
    manager = getattr(entry, "guard_manager", None) or getattr(entry, "check_fn", None)
    return [str(part) for part in getattr(manager, "code_parts", None) or []]


def compile_id(entry: Any) -> str:
    """``0/1``: frame 0, compiled for the second time; empty on releases that do not number entries."""
    return str(getattr(entry, "compile_id", "") or "")


def on_recompilation(heard: Callable[[Any], None]) -> Optional[Callable[[], None]]:
    """Call ``heard(frame)`` after torch found out why a frame is compiled again; returns how to undo it."""
    module = _module("convert_frame")
    for name in _REASONS:
        original = getattr(module, name, None)
        if original is None:
            continue

        def reasons(entries: Any, frame: Any, *args: Any, _original: Any = original, **words: Any) -> Any:
            found = _original(entries, frame, *args, **words)
            heard(frame)
            return found

        setattr(module, name, reasons)
        return lambda name=name, original=original: setattr(module, name, original)  # type: ignore[misc]
    return None


def _module(name: str) -> Any:
    return sys.modules.get("torch._dynamo." + name)
