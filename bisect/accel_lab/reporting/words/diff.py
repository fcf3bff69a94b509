"""A comparison of two runs in words: the headline and the table, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabulate import tabulate

from accel_lab.reporting.tables.findings import one_line

#: Rows of the terminal's table; the page and the JSON have all.
MOST_ROWS = 20
#: Columns of ``HEAD`` that the terminal leaves to the page.
_PAGE_ONLY = ("RMS rel", "cosine")
HEAD = ("", "value", "dtype", "not equal", "max abs", "max rel", "RMS rel", "ULP", "cosine", "vs float64")


def headline(diff: Mapping[str, Any]) -> str:
    """``3 of 12 values differ between inductor and eager``, or that none does."""
    summary = diff["summary"]
    between = f"{diff['test']} and {diff['reference']}"
    if summary["differ"] == 0:
        return f"all {summary['values']} values agree between {between}"
    return f"{summary['differ']} of {summary['values']} values differ between {between}"


def notes(diff: Mapping[str, Any]) -> list[str]:
    """Notes below the table: the first and the worst value, runs that failed, what agrees means."""
    summary = diff["summary"]
    lines = []
    if summary["first"]:
        lines.append(f"the first that differs: {summary['first']}")
    if summary["worst"] and summary["worst"] != summary["first"]:
        lines.append(f"the greatest relative error: {summary['worst']}")
    if diff["rule"]:
        lines.append(diff["rule"])
    if diff["runs"] > 1:
        lines.append(
            f"{diff['runs']} runs of {diff['test']}; mean and variance of the greatest error are shown"
        )
    return [*lines, *diff["failures"]]


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """One value as a row under ``HEAD``."""
    metrics = row["metrics"] or {}
    mark = "" if row["same"] else "✗"
    call = "" if row["call"] is None else f"call {row['call']} "
    region = str(row["region"]).rpartition(".")[2]
    place = f"{region} {call}{row['phase']} {row['path']}"
    different = f"{metrics['different']}/{metrics['elements']}" if metrics else row["reason"]
    return (
        mark,
        place,
        f"{row['dtype']}{row['shape'] if row['shape'] else ''}",
        different,
        number(metrics.get("absolute", {}).get("max")),
        number(metrics.get("relative", {}).get("max")),
        number(metrics.get("relative", {}).get("rms")),
        "" if metrics.get("ulp") is None else str(metrics["ulp"]),
        "" if metrics.get("cosine") is None else f"{metrics['cosine']:.6f}",
        _beside(row),
    )


def specials(row: Mapping[str, Any]) -> str:
    """NaN, infinities and negative zeros that only one side has; empty where there are none."""
    metrics = row["metrics"] or {}
    lines = []
    for name, word in (("nan", "NaN"), ("inf", "infinity"), ("negative_zero", "-0.0")):
        found = metrics.get(name) or {}
        if found.get("got") or found.get("want"):
            lines.append(f"{word}: {found['got']} in the tested run only, {found['want']} in the other only")
    return "; ".join(lines)


def _beside(row: Mapping[str, Any]) -> str:
    """The greatest error against float64, and eager's own."""
    ours, eagers = row["error_vs_float64"], row["eager_error_vs_float64"]
    return "" if ours is None else f"{number(ours)} (eager {number(eagers)})"


def number(value: Any) -> str:
    """A number in three digits; empty for none."""
    return "" if value is None else value if isinstance(value, str) else f"{value:.3g}"


def text(diff: Mapping[str, Any], width: int) -> str:
    """What the terminal shows: those that differ first, then the rest in the order of the run."""
    rows = sorted(diff["rows"], key=lambda row: row["same"])
    shown = [cells(row) for row in rows[:MOST_ROWS]]
    kept = [n for n, name in enumerate(HEAD) if name not in _PAGE_ONLY]
    place = max(24, width - 84)
    table = tabulate(
        [[one_line(row[n], place) if n == 1 else row[n] for n in kept] for row in shown],
        headers=[HEAD[n] for n in kept],
        disable_numparse=True,
    )
    more = len(rows) - len(shown)
    lines = [f"{diff['program']}: {headline(diff)} (torch {diff['torch']})", ""]
    lines += [table, *([f"and {more} more: see diff.json"] if more > 0 else []), ""]
    lines += [f"{row['path']}: {said}" for row in rows[:MOST_ROWS] if (said := specials(row))]
    return "\n".join([*lines, *notes(diff)])
