"""Summarizes recompilations and graph breaks from the tables that Dynamo keeps in torch 2.0 and later.

Reads them at the end of a run and hooks nothing.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple

from ..exceptions import code_key
from ..torch_internals import metrics

MAX_ROWS = 24
#: On releases that number compilations, a reason starts with the one whose guard failed (``0/7: ``).
TURN = re.compile(r"^(\d+/\d+): ")


def facts() -> Dict[str, Any]:
    """Returns ``again`` (recompiled code), ``breaks`` (graph breaks) and ``limit`` (0 if unknown)."""
    limit = metrics.compilation_limit()
    return {
        "again": _again(metrics.guard_failures(), limit),
        "breaks": _breaks(metrics.graph_break_reasons()),
        "limit": limit,
    }


def _again(failures: Any, limit: int) -> List[Dict[str, Any]]:
    """A row per code object: number of recompilations, whether the limit was hit, first failed guards."""
    rows: List[Dict[str, Any]] = []
    for code, failed in list(dict(failures).items())[:200]:
        reasons = [str(reason) for reason in list(failed)[:2000]]
        turns = {match.group(1) for match in map(TURN.match, reasons) if match}
        guards = list(dict.fromkeys(guard_of(reason) for reason in reasons))
        times = len(turns) if turns else len(guards)
        refused = bool(limit) and times >= limit
        if refused:
            times = limit - 1
        name = code_key(code) if hasattr(code, "co_name") else str(code)
        rows.append({"code": name, "times": times, "limit_hit": refused, "guards": guards[:8]})
    rows.sort(key=lambda row: -int(row["times"]))
    return rows[:MAX_ROWS]


def guard_of(reason: str) -> str:
    """Returns the failed guard of a recompile reason, without torch's comment."""
    return re.split(r"\s\s#|\n", TURN.sub("", reason))[0].strip()[:300]


def place_of(graph_break: Any) -> Tuple[str, int, str]:
    """Returns file, line and function of a graph break's innermost frame outside of installed packages."""
    stack = list(getattr(graph_break, "user_stack", None) or [])
    own = [frame for frame in stack if "/site-packages/" not in str(frame.filename)] or stack
    return (str(own[-1].filename), int(own[-1].lineno or 0), str(own[-1].name)) if own else ("", 0, "")


def _breaks(reasons: Any) -> List[Dict[str, Any]]:
    """A row per place and reason, with the number of times."""
    rows: Dict[Any, Dict[str, Any]] = {}
    for one in list(reasons)[:2000]:
        place = place_of(one)
        lines = str(getattr(one, "reason", "")).strip().splitlines() or [""]
        key = (*place, lines[0])
        if key not in rows and len(rows) >= MAX_ROWS:
            continue
        row = rows.setdefault(
            key,
            {"file": place[0], "line": place[1], "function": place[2], "reason": lines[0][:300], "times": 0},
        )
        row["times"] += 1
    return list(rows.values())
