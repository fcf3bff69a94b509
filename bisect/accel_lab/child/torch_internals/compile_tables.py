"""Reads Dynamo's records of its compilations: metrics, and cache entries with their guards.

Relies on ``_dynamo/utils.py`` (``_compilation_metrics``, since 2.1), ``_dynamo/convert_frame.py``
(``input_codes``, since 2.0; the function that computes recompile reasons, renamed to a plural in 2.7) and
``_dynamo/eval_frame.py`` (``_debug_get_cache_entry_list``, since 2.3). Guard failures and graph breaks are
in :mod:`.metrics`.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, Callable, List, Optional

#: Newest first.
_REASONS = ("get_and_maybe_log_recompilation_reasons", "get_and_maybe_log_recompilation_reason")


def metrics() -> List[Any]:
    """Returns the ``CompilationMetrics`` so far, oldest first; by default torch keeps the last 64."""
    return list(getattr(_module("utils"), "_compilation_metrics", None) or [])


def keep_metrics(most: int) -> None:
    """Makes torch keep the metrics of the last ``most`` compilations."""
    utils = _module("utils")
    kept = getattr(utils, "_compilation_metrics", None)
    if kept is not None and hasattr(kept, "maxlen"):
        utils._compilation_metrics = type(kept)(kept, maxlen=most)


def codes() -> List[CodeType]:
    """Returns the code objects that Dynamo was asked to compile and that are still alive."""
    seen = getattr(getattr(_module("convert_frame"), "input_codes", None), "seen", None) or []
    found = [one if isinstance(one, CodeType) else one() for one in list(seen)]
    return [code for code in found if isinstance(code, CodeType)]


def cache_entries(code: CodeType) -> List[Any]:
    """Returns Dynamo's current cache entries of a code object; empty if this torch cannot list them."""
    listed = getattr(_module("eval_frame"), "_debug_get_cache_entry_list", None)
    if listed is None:
        return []
    try:
        return list(listed(code))
    except Exception:
        return []  # Dynamo never had an entry for this code object


def guards(entry: Any) -> List[str]:
    """Returns the guards of a cache entry as Python expressions."""
    manager = getattr(entry, "guard_manager", None) or getattr(entry, "check_fn", None)
    return [str(part) for part in getattr(manager, "code_parts", None) or []]


def compile_id(entry: Any) -> str:
    """Returns an entry's id, such as ``0/1`` (frame 0, second compilation); empty on older releases."""
    return str(getattr(entry, "compile_id", "") or "")


def on_recompilation(heard: Callable[[Any], None]) -> Optional[Callable[[], None]]:
    """Calls ``heard(frame)`` once torch has the reasons of a recompilation.

    Returns a function that removes the hook, or None if this torch lacks the place.
    """
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
