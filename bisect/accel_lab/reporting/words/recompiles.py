"""Describes recompilations and graph breaks of a passing script: how often, why, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.findings import Findings
from accel_lab.core.text import shorten

#: One or two recompilations are usual, when sizes turn out to vary.
USUAL = 2
_PLACES = 3


def sentences(findings: Findings) -> str:
    """Describes recompilations and graph breaks that slow a passing script; empty if there are none."""
    facts = next(
        (f for step in findings.baseline if isinstance(f := step.outcome.facts.get("compiles"), Mapping)), {}
    )
    parts = [_again(_rows(facts.get("again")), facts.get("limit")), _breaks(_rows(facts.get("breaks")))]
    text = [part for part in parts if part]
    if not text:
        return ""
    more = "To look for a release that does better: --versions with --metric "
    names = [name for name, part in zip(("recompiles", "graph_breaks"), parts, strict=True) if part]
    guards = "Every graph, guard and failed guard is listed by accel-lab guards SCRIPT."
    return " ".join([*text, more + " or --metric ".join(names) + ".", guards])


def _again(rows: Sequence[Mapping[str, Any]], limit: object) -> str:
    counted = [(row, _number(row.get("times"))) for row in rows]
    often = [(row, times) for row, times in counted if times > USUAL or row.get("limit_hit") is True]
    if not often:
        return ""
    parts = []
    for row, times in often[:_PLACES]:
        guards = row.get("guards")
        guard = str(guards[0]) if isinstance(guards, (list, tuple)) and guards else ""
        why = f" (the guard that failed first: {shorten(guard, 120)})" if guard else ""
        parts.append(f"{_code(str(row.get('code')))} {times} times{why}")
    rest = f" and {len(often) - _PLACES} more" if len(often) > _PLACES else ""
    text = f"But Dynamo compiled code again: {'; '.join(parts)}{rest}."
    stopped = [_code(str(row.get("code"))) for row, _ in often if row.get("limit_hit") is True]
    if stopped:
        verb = "runs" if len(stopped) == 1 else "run"
        text += f" The limit of {limit} was reached, and from then on {', '.join(stopped)} {verb} uncompiled."
    return text


def _breaks(rows: Sequence[Mapping[str, Any]]) -> str:
    by_place: dict[str, str] = {}
    for row in rows:
        file, line = str(row.get("file") or "").rpartition("/")[2], _number(row.get("line"))
        place = f"{file}:{line}" if file else "an unknown place"
        by_place.setdefault(place, shorten(str(row.get("reason")), 100))
    if not by_place:
        return ""
    count = len(by_place)
    shown = "; ".join(f"{place} ({reason})" for place, reason in list(by_place.items())[:_PLACES])
    rest = f" and {count - _PLACES} more" if count > _PLACES else ""
    return f"The graph breaks at {count} place{'' if count == 1 else 's'}: {shown}{rest}."


def _code(key: str) -> str:
    """Shortens ``forward /a/b.py:15`` to ``forward (b.py:15)``."""
    name, _, place = key.partition(" ")
    return f"{name} ({place.rpartition('/')[2]})" if place else name


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []
