"""Describes a triage: how many scripts and faults, and the results of the other scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from accel_lab.core.stages import Stage
from accel_lab.core.text import counted, shorten

from . import terms

#: Scripts' verdicts in words, in listing order.
VERDICTS = {
    "fails": "fail",
    "by_design": "differ by design",
    "passes": "do not fail",
    "inconclusive": "could not be judged",
    "error": "could not be bisected",
}

#: Maximum engine faults printed; the JSON has all.
_MOST_FAULTS = 20


def headline(triage: Mapping[str, Any]) -> str:
    """Returns ``5 scripts, 2 distinct faults.``"""
    return f"{counted(len(triage['scripts']), 'script')}, {counted(len(triage['faults']), 'distinct fault')}."


def counts(triage: Mapping[str, Any]) -> str:
    """Counts scripts by verdict, and the bisections that this took."""
    found = Counter(row["verdict"] for row in triage["scripts"])
    parts = [f"{found[verdict]} {words}" for verdict, words in VERDICTS.items() if found[verdict]]
    again = f", {triage['reused']} reused from an earlier triage" if triage["reused"] else ""
    return f"{', '.join(parts)}. {counted(triage['asked'], 'bisection')} in {triage['seconds']:.0f} s{again}."


def fault_name(fault: Mapping[str, Any]) -> str:
    """Returns the stage and the component of a fault."""
    try:
        stage = terms.STAGES[Stage(fault["stage"])]
    except (ValueError, KeyError):
        stage = str(fault["stage"])
    return f"{stage}: {fault['component']}" if fault["component"] else stage


def smallest(fault: Mapping[str, Any]) -> str:
    """Returns the smallest script and its size."""
    lines = fault["lines"]
    return str(fault["smallest"]) + (f" ({counted(lines, 'line')})" if lines is not None else "")


def change_lines(triage: Mapping[str, Any]) -> list[str]:
    """Lists changes since the last triage of the same place; empty if there was none."""
    found = triage["changes"]
    if found is None:
        return []
    lines = [f"new fault: {fault_name(fault)}" for fault in found["new_faults"]]
    lines += [f"gone fault: {fault_name(fault)}" for fault in found["gone_faults"]]
    lines += [f"new script: {name}" for name in found["new_scripts"]]
    lines += [f"gone script: {name}" for name in found["gone_scripts"]]
    lines += [_changed(row) for row in found["changed_scripts"]]
    return lines or [f"nothing has changed since {found['since']}"]


def _changed(row: Mapping[str, Any]) -> str:
    if row["before"] == row["now"]:
        return f"{row['script']}: a different fault than before"
    return f"{row['script']}: was `{row['before']}`, is `{row['now']}`"


def lines_of(triage: Mapping[str, Any]) -> list[str]:
    """Returns the triage as lines of plain text."""
    lines = [headline(triage), counts(triage)]
    for number, fault in enumerate(triage["faults"], 1):
        sure = f" ({fault['confidence']})" if fault["confidence"] else ""
        lines += [
            "",
            f"Fault {number}  {fault_name(fault)}{sure}",
            f"  failure   {shorten(fault['signature'], 160)}",
            *([f"  releases  {', '.join(fault['flips'])}"] if fault["flips"] else []),
            f"  smallest  {smallest(fault)}",
            *([f"  bundle    {fault['bundle']}"] if fault["bundle"] else []),
            f"  scripts   {shorten(', '.join(fault['members']), 300)}",
        ]
    rest = [row for row in triage["scripts"] if row["verdict"] in ("inconclusive", "error")]
    lines += ["", *(f"{row['script']}: {shorten(row['said'], 200)}" for row in rest)] if rest else []
    faults = triage["engine"]["faults"]
    lines += ["", f"Faults of the engine {triage['engine']['name']}:"] if faults else []
    lines += [f"- {shorten(line, 300)}" for line in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        lines.append(f"- and {len(faults) - _MOST_FAULTS:,} more: see triage.json")
    changed = change_lines(triage)
    lines += (
        ["", "Since the last triage of this place:", *(f"- {line}" for line in changed)] if changed else []
    )
    return lines
