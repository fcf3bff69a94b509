"""Logs Dynamo's compilations in a run: frames with guards and times, graph breaks, recompilations.

A recompilation is reported with the failed guard, which states the expected value, and the actual value.
Values are read only where this runs no code of the program.
"""

from __future__ import annotations

import ast
import linecache
import re
from types import CodeType
from typing import Any, Dict, List, Optional, Tuple

from ..torch_internals import compile_tables as tables
from ..torch_internals import metrics as counted
from .recompiles import TURN, guard_of, place_of

MAX_FRAMES = 400
MAX_GUARDS = 60
MAX_RECOMPILES = 200
MAX_BREAKS = 100
_LONGEST = 300
#: Guards on torch's own state, which every graph has; they are left out.
_USUAL = re.compile(
    r"^hasattr\(.+, '_dynamo_\w+'\)"
    r"|___check_(global_state|torch_function_mode_stack|current_backend)|top_saved_tensors_hooks|CURRENT_DEVICE"
)
_HINT = re.compile(r"^\s*Hint: (.*)$")
_EXPLANATION = re.compile(r"^\s*Explanation: (.*)$")
_MISSING = object()


class CompileLog:
    """Notes recompilations as they happen, and reads frames and graph breaks when the run ends."""

    def __init__(self) -> None:
        self._recompiles: List[Dict[str, Any]] = []
        self._seen: Dict[CodeType, int] = {}
        self._left_out = 0
        tables.keep_metrics(4 * MAX_FRAMES)
        self._earlier = len(tables.metrics())
        self._undo = tables.on_recompilation(self._recompiled)

    def close(self) -> None:
        """Removes the hook from Dynamo."""
        if self._undo is not None:
            self._undo()
            self._undo = None

    def facts(self) -> Dict[str, Any]:
        """Returns the log as JSON values.

        ``frames``: a row per compilation, in order. ``breaks``: a row per place and reason.
        ``recompiles``: a row per recompilation. ``limit``: Dynamo's recompile limit, 0 if unknown.
        ``at_limit``: functions that reached it and run uncompiled since.
        """
        limit = counted.compilation_limit()
        rows, kept = self._frames()
        return {
            "frames": rows,
            "frames_left_out": kept,
            "breaks": _breaks(),
            "recompiles": self._recompiles,
            "recompiles_left_out": self._left_out,
            "limit": limit,
            "at_limit": _at_limit(limit),
        }

    def _recompiled(self, frame: Any) -> None:
        code = frame.f_code
        failures = list(counted.guard_failures().get(code) or [])
        new = failures[self._seen.get(code, 0) :]
        self._seen[code] = len(failures)
        if not new:
            return
        if len(self._recompiles) >= MAX_RECOMPILES:
            self._left_out += 1
            return
        scope = {"L": dict(frame.f_locals), "G": frame.f_globals}
        failed = [_failed_guard(str(reason), scope) for reason in new[-MAX_GUARDS:]]
        self._recompiles.append({**_place(code), "failed": failed})

    def _frames(self) -> Tuple[List[Dict[str, Any]], int]:
        guards: Dict[str, List[str]] = {}
        for code in tables.codes():
            for entry in tables.cache_entries(code):
                number = tables.compile_id(entry)
                guards[number] = [g for g in tables.guards(entry) if not _USUAL.search(g)]
        metrics = tables.metrics()[self._earlier :]
        rows = [_frame(one, guards.get(str(getattr(one, "compile_id", "")))) for one in metrics[:MAX_FRAMES]]
        return rows, max(0, len(metrics) - MAX_FRAMES)


def _frame(metrics: Any, guards: Optional[List[str]]) -> Dict[str, Any]:
    """The row of one compilation; ``guards`` is None if Dynamo dropped the cache entry."""
    line = int(getattr(metrics, "co_firstlineno", 0) or 0)
    file = str(getattr(metrics, "co_filename", "") or "")
    return {
        "id": str(getattr(metrics, "compile_id", "") or ""),
        "function": str(getattr(metrics, "co_name", "") or ""),
        "file": file,
        "line": line,
        "operators": int(getattr(metrics, "graph_op_count", 0) or 0),
        "guard_count": int(getattr(metrics, "guard_count", 0) or 0),
        "guards": None if guards is None else [guard[:_LONGEST] for guard in guards[:MAX_GUARDS]],
        "seconds": _seconds(metrics, "entire_frame_compile_time_s", "duration_us"),
        "backend_seconds": _seconds(
            metrics, "backend_compile_time_s", "aot_autograd_cumulative_compile_time_us"
        ),
        "code_gen_seconds": _seconds(
            metrics, "code_gen_time_s", "inductor_code_gen_cumulative_compile_time_us"
        ),
        "restarts": sorted(
            _first_line(reason) for reason in list(getattr(metrics, "restart_reasons", None) or [])[:8]
        ),
        "failed": _first_line(
            getattr(metrics, "fail_reason", None) or getattr(metrics, "fail_type", None) or ""
        ),
    }


def _seconds(metrics: Any, seconds: str, microseconds: str) -> float:
    """Reads a duration in seconds; 0.0 if torch did not measure it."""
    found = getattr(metrics, seconds, None)
    if isinstance(found, (int, float)):
        return round(float(found), 6)
    found = getattr(metrics, microseconds, None)
    return round(float(found) / 1e6, 6) if isinstance(found, (int, float)) else 0.0


def _breaks() -> List[Dict[str, Any]]:
    """A row per place and reason; the place is the innermost frame outside of installed packages."""
    rows: Dict[Any, Dict[str, Any]] = {}
    for one in counted.graph_break_reasons()[:2000]:
        lines = str(getattr(one, "reason", "")).strip().splitlines() or [""]
        file, line, name = place_of(one)
        key = (file, line, lines[0])
        if key not in rows and len(rows) >= MAX_BREAKS:
            continue
        row = rows.setdefault(
            key,
            {
                "file": file,
                "line": line,
                "function": name,
                "source": linecache.getline(file, line).strip()[:_LONGEST],
                "reason": lines[0][:_LONGEST],
                "explanation": _all(_EXPLANATION, lines, 1),
                "hints": _all(_HINT, lines, 6),
                "times": 0,
            },
        )
        row["times"] += 1
    return list(rows.values())


def _all(pattern: Any, lines: List[str], most: int) -> List[str]:
    found = [match.group(1).strip()[:_LONGEST] for match in map(pattern.match, lines) if match]
    return found[:most]


def _at_limit(limit: int) -> List[Dict[str, Any]]:
    """Functions that reached the recompile limit, so that Dynamo no longer compiles them."""
    found = []
    for code, reasons in list(counted.guard_failures().items())[:2000]:
        turns = {match.group(1) for match in map(TURN.match, map(str, list(reasons)[:5000])) if match}
        if limit and len(turns) >= limit and isinstance(code, CodeType):
            found.append(_place(code))
    return found


def _failed_guard(reason: str, scope: Dict[str, Any]) -> Dict[str, Any]:
    """Parses a recompile reason: the compilation, the guard that failed, the actual value or None."""
    turn = TURN.match(reason)
    text = guard_of(reason)
    compared = re.search(r" (==|!=|<=|>=|<|>) ", text)
    typed = re.match(r"___check_type_id\((?P<source>.+), \d+\)", text)
    value = _MISSING
    if typed:
        value = _value(typed.group("source"), scope)
        value = type(value).__name__ if value is not _MISSING else value
    elif compared:
        value = _value(text[: compared.start()], scope)
        value = _short(value) if value is not _MISSING else value
    return {
        "compilation": turn.group(1) if turn else "",
        "guard": text[:_LONGEST],
        "value": None if value is _MISSING else value,
    }


def _value(expression: str, scope: Dict[str, Any]) -> Any:
    """Evaluates a guard's expression; ``_MISSING`` if that would run code of the program.

    A bare name is a local variable: torch 2.13 and later write ``n`` for ``L['n']``.
    """
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return _MISSING
    return _read(node, scope)


def _read(node: Any, scope: Dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope.get(node.id, scope["L"].get(node.id, _MISSING))
    if isinstance(node, ast.Call):
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "len"
            and len(node.args) == 1
            and not node.keywords
        ):
            inside = _read(node.args[0], scope)
            return len(inside) if type(inside) in (dict, list, tuple, str) else _MISSING
        return _MISSING
    if isinstance(node, ast.Attribute):
        owner = _read(node.value, scope)
        held = getattr(owner, "__dict__", None) if owner is not _MISSING else None
        return held.get(node.attr, _MISSING) if type(held) is dict else _MISSING
    if isinstance(node, ast.Subscript):
        owner = _read(node.value, scope)
        key = node.slice.value if type(node.slice).__name__ == "Index" else node.slice  # type: ignore[attr-defined]
        if not isinstance(key, ast.Constant):
            return _MISSING
        if type(owner) in (dict, list, tuple) or isinstance(owner, dict):
            try:
                return dict.get(owner, key.value, _MISSING) if isinstance(owner, dict) else owner[key.value]
            except (LookupError, TypeError):
                return _MISSING
    return _MISSING


def _short(value: Any) -> str:
    """Formats a value in one line without calling the program's ``__repr__``."""
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)[:_LONGEST]
    shape = getattr(value, "shape", None)
    if shape is not None and type(value).__module__.startswith("torch"):
        return "a %s of shape %s" % (type(value).__name__, tuple(shape))
    return "a %s" % type(value).__name__


def _place(code: CodeType) -> Dict[str, Any]:
    return {"function": code.co_name, "file": code.co_filename, "line": code.co_firstlineno}


def _first_line(text: Any) -> str:
    return (str(text).strip().splitlines() or [""])[0][:_LONGEST]
