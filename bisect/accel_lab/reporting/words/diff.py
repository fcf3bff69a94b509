"""Describes a comparison of two runs: the headline and the table, for terminal and page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabulate import tabulate

from accel_lab.reporting.tables.findings import one_line

#: Maximum rows of the terminal's table; the page and the JSON have all.
MOST_ROWS = 20
#: Columns of ``HEAD`` that only the page shows.
_PAGE_ONLY = ("RMS rel", "cosine")
#: Maximum outputs with aliasing drift that are named.
MOST_DRIFTS = 5
LAYERS_HEAD = ("", "module", "operator", "dtype", "error", "eager's", "line")
MODULES_HEAD = ("", "module", "operators", "greatest error", "eager's", "first diverging")
HEAD = ("", "value", "dtype", "not equal", "max abs", "max rel", "RMS rel", "ULP", "cosine", "vs float64")


def headline(diff: Mapping[str, Any]) -> str:
    """Returns the headline: ``3 of 12 values differ between inductor and eager``, or that all agree."""
    summary = diff["summary"]
    between = f"{diff['test']} and {diff['reference']}"
    if summary["differ"] == 0:
        return f"all {summary['values']} values agree between {between}"
    return f"{summary['differ']} of {summary['values']} values differ between {between}"


def notes(diff: Mapping[str, Any]) -> list[str]:
    """Returns notes below the table: the first and the worst value, failed runs, what "agrees" means."""
    summary = diff["summary"]
    lines = []
    if summary["first"]:
        lines.append(f"the first that differs: {summary['first']}")
    if summary["worst"] and summary["worst"] != summary["first"]:
        lines.append(f"the greatest relative error: {summary['worst']}")
    lines += drifts(diff)
    if diff.get("layers"):
        lines += layers(diff["layers"])
    if diff["rule"]:
        lines.append(diff["rule"])
    if diff["runs"] > 1:
        lines.append(
            f"{diff['runs']} runs of {diff['test']}; the verdict and the other figures are of the first"
        )
    return [*lines, *diff["failures"]]


def cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns one value as a row under ``HEAD``."""
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


def drifts(diff: Mapping[str, Any]) -> list[str]:
    """Lists outputs that share memory differently than in the reference; values are compared separately."""
    said = []
    for row in diff["rows"]:
        if row.get("aliasing"):
            both = [
                f"{row['aliasing'][side] or 'nothing'} under {diff[side]}" for side in ("test", "reference")
            ]
            said.append(f"aliasing drift: {row['path']} shares memory with {both[0]}, with {both[1]}")
    return said[:MOST_DRIFTS] + ([f"and {len(said) - MOST_DRIFTS} more"] if len(said) > MOST_DRIFTS else [])


def layers(found: Mapping[str, Any]) -> list[str]:
    """Names the first module and the first operator that diverge from float64."""
    lines = []
    first = next((one for one in found["operators"] if one["node"] == found["first_operator"]), None)
    if first is None:
        lines.append("operator by operator: none diverges from float64 more than eager does")
    else:
        module = f"module {found['first_module']}, " if found["first_module"] else ""
        error = (
            ""
            if first["error"] is None
            else f", error {number(first['error'])} (eager {number(first['eager'])})"
        )
        name = f"{first['node']} ({first['op']})"
        lines.append(f"the first to diverge from float64: {module}operator {name}{error}")
        if first["source"]:
            lines.append(f"its line: {first['source']}")
    if found["call"]:
        lines.append(f"this is call {found['call'] + 1} of the graph; those before it agree")
    return [*lines, *([found["note"]] if found["note"] else [])]


def layer_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns the operators as rows under ``LAYERS_HEAD``."""
    return [
        (
            "first" if one["node"] == found["first_operator"] else "diverges" if one["differs"] else "",
            one["module"],
            f"{one['node']} ({one['op']})",
            f"{one['dtype']}{list(one['shape'])}",
            number(one["error"]) if one["error"] is not None else f"{one['wrong']} wrong",
            number(one["eager"]),
            one["source"],
        )
        for one in found["operators"]
    ]


def module_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns the modules as rows under ``MODULES_HEAD``."""
    return [
        (
            "first" if one["name"] == found["first_module"] else "diverges" if one["first"] else "",
            one["name"] or "(no module)",
            str(one["operators"]),
            number(one["error"]),
            number(one["eager"]),
            one["first"],
        )
        for one in found["modules"]
    ]


def specials(row: Mapping[str, Any]) -> str:
    """Describes NaN, infinities and -0.0 that only one side has, and the spread of several runs; or ""."""
    metrics = row["metrics"] or {}
    lines = []
    if runs := row.get("runs"):
        lines.append(
            f"greatest error of all runs: mean {number(runs['mean'])}, variance {number(runs['variance'])}"
        )
    for name, word in (("nan", "NaN"), ("inf", "infinity"), ("negative_zero", "-0.0")):
        found = metrics.get(name) or {}
        if found.get("got") or found.get("want"):
            lines.append(f"{word}: {found['got']} in the tested run only, {found['want']} in the other only")
    return "; ".join(lines)


def _beside(row: Mapping[str, Any]) -> str:
    ours, eagers = row["error_vs_float64"], row["eager_error_vs_float64"]
    return "" if ours is None else f"{number(ours)} (eager {number(eagers)})"


def number(value: Any) -> str:
    """Returns a number with three digits; empty if None."""
    return "" if value is None else value if isinstance(value, str) else f"{value:.3g}"


def text(diff: Mapping[str, Any], width: int) -> str:
    """Returns the text for the terminal: differing values first, then the rest in run order."""
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
