"""Describes a CompileReport: the headline and the tables, for terminal and page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tabulate import tabulate

from accel_lab.core.text import counted, shorten
from accel_lab.inspection.compile_report import Compilation, CompileReport, GraphBreak, Place, Recompilation

#: Maximum rows of each table in the terminal; the page and the JSON have all.
MOST_ROWS = 10
COSTLIEST_HEAD = (
    "compilation",
    "function",
    "operators",
    "guards",
    "seconds",
    "backend",
    "code generation",
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One finding: title, place, source line, details, and what to write instead."""

    title: str
    place: str
    source: str
    details: tuple[str, ...]
    rewrite: str


def headline(report: CompileReport) -> str:
    """Returns ``4 graphs in 3 functions, 1 graph break, 2 recompilations; compiling took 3.2 s``."""
    graphs = [one for one in report.compilations if one.operators and not one.failed]
    functions = len({one.place for one in graphs})
    parts = [
        f"{counted(len(graphs), 'graph')} in {counted(functions, 'function')}",
        counted(sum(one.times for one in report.breaks), "graph break"),
        counted(len(report.recompilations) + report.recompilations_left_out, "recompilation"),
    ]
    return f"{', '.join(parts)}; compiling took {report.seconds:.1f} s"


def notes(report: CompileReport) -> list[str]:
    """Returns what needs attention before the tables."""
    found = [
        f"{name(place)} reached the limit of {report.limit} compilations and runs uncompiled from then on"
        for place in report.at_limit
    ]
    found += [
        f"{name(place)} is recompiled on most calls: {times + 1} compilations"
        for place, times in report.compiled_again
        if times >= 3 and place not in report.at_limit
    ]
    if report.compilations_left_out:
        found.append(f"{report.compilations_left_out} later compilations are not listed")
    if report.recompilations_left_out:
        found.append(f"{report.recompilations_left_out} later recompilations are not listed")
    return found


def breaks(report: CompileReport) -> list[Entry]:
    """Returns the graph breaks, most frequent first."""
    return [_break(one) for one in sorted(report.breaks, key=lambda one: -one.times)]


def recompilations(report: CompileReport) -> list[Entry]:
    """Returns the recompilations, in the order of the run."""
    return [_recompilation(one) for one in report.recompilations]


def costliest(report: CompileReport) -> list[tuple[str, ...]]:
    """Returns the longest compilations, as rows under ``COSTLIEST_HEAD``."""
    return [_cost(one) for one in report.costliest]


def compilations(report: CompileReport) -> list[Entry]:
    """Returns each compilation with its guards."""
    return [_compilation(one) for one in report.compilations]


def terminal(report: CompileReport) -> str:
    """Returns the text for the terminal."""
    blocks = [headline(report)]
    blocks += [f"note: {note}" for note in notes(report)]
    for title, entries in (("Graph breaks", breaks(report)), ("Recompilations", recompilations(report))):
        if entries:
            blocks.append("\n".join([title, *_lines(entries[:MOST_ROWS])]))
            if len(entries) > MOST_ROWS:
                blocks[-1] += f"\n  … {len(entries) - MOST_ROWS} more in guards.html"
    rows = costliest(report)
    if rows:
        blocks.append("Costliest compilations\n" + tabulate(rows, COSTLIEST_HEAD, disable_numparse=True))
    return "\n\n".join(blocks)


def name(place: Place) -> str:
    """Returns ``forward (model.py:12)``; ``torch_dynamo_resume_in_f_at_10`` is shown as f, resumed."""
    resumed = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_(\d+)", place.function)
    function = f"{resumed[1]}, resumed at line {resumed[2]}" if resumed else place.function
    return f"{function} ({PurePath(place.file).name}:{place.line})"


def _lines(entries: Sequence[Entry]) -> list[str]:
    lines = []
    for entry in entries:
        lines.append(f"  {entry.place}  {shorten(entry.title, 100)}")
        if entry.source:
            lines.append(f"    {shorten(entry.source, 100)}")
        lines += [f"    {shorten(detail, 160)}" for detail in entry.details[:2]]
        if entry.rewrite:
            lines.append(f"    instead: {entry.rewrite}")
    return lines


def _break(one: GraphBreak) -> Entry:
    times = "" if one.times == 1 else f", {one.times} times"
    details = (
        *((one.explanation,) if one.explanation else ()),
        *(f"torch's hint: {hint}" for hint in one.hints),
    )
    return Entry(
        title=f"{one.reason}{times}",
        place=name(one.place),
        source=one.source,
        details=details,
        rewrite=one.rewrite,
    )


def _recompilation(one: Recompilation) -> Entry:
    details = []
    for failed in one.failed:
        value = "" if failed.value is None else f"; the value is {failed.value}"
        earlier = f" of compilation {failed.compilation}" if failed.compilation else ""
        details.append(f"failed guard{earlier}: {_readable(failed.guard)}{value}")
    return Entry(
        title="compiled again", place=name(one.place), source="", details=tuple(details), rewrite=one.rewrite
    )


def _compilation(one: Compilation) -> Entry:
    details = [f"restarted: {reason}" for reason in one.restarts]
    if one.failed:
        details.append(f"compilation failed: {one.failed}")
    if one.guards is None:
        details.append(
            f"{counted(one.guard_count, 'guard')}; the compiled code was freed, so they cannot be listed"
        )
    else:
        details += map(_readable, one.guards)
    guards, seconds = counted(one.guard_count, "guard"), f"{one.seconds:.2f} s"
    return Entry(
        title=f"{one.number}: {counted(one.operators, 'operator')}, {guards}, {seconds}",
        place=name(one.place),
        source="",
        details=tuple(details),
        rewrite="",
    )


def _readable(guard: str) -> str:
    """Returns a guard without object ids: ``type(n) is float``, ``f is the same object``."""
    same = re.match(r"___check_obj_id\((.+), \d+\)", guard)
    if same is not None:
        return f"{same[1]} is the same object"
    typed = re.match(r"___check_type_id\((.+), \d+\)(?:, type=<class '([\w.]+)'>)?", guard)
    if typed is None:
        return guard
    return f"type({typed[1]}) is {typed[2] or 'the same'}"


def _cost(one: Compilation) -> tuple[str, ...]:
    return (
        one.number,
        name(one.place),
        str(one.operators),
        str(one.guard_count),
        f"{one.seconds:.2f}",
        f"{one.backend_seconds:.2f}",
        f"{one.code_gen_seconds:.2f}",
    )
