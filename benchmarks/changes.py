"""Asks ``bisect --change`` for the change at a flip between two builds, and compares it with the public fix.

``python benchmarks/changes.py --pythons OLD:NEW [--save] [NAME…]``: the golden cases that fail on one
build and pass on the other, or those with one of the names. One row a case. With ``--save`` a row replaces
the row of the same case and releases in the table as it is reached, and cases that it has already are left
out unless ``--again`` is given: a stopped run loses nothing. ``--summary`` only counts what a table says.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tables
from golden import Case, load_cases, release
from harness import run_bisect, stop_when_asked, torch_version

TABLE = Path(__file__).resolve().parent / "changes.tsv"
#: Endings of files that are compiled: no piece of torch's Python sources can be right.
COMPILED = (".cpp", ".h", ".cu", ".cuh")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case at one flip.

    ``named`` are the pieces, or why none was found; ``both_ways`` is yes, no, or not asked; ``confidence`` is
    proven, likely, refuted, or empty. ``probes`` are all runs on the case's own build, ``runs`` those once
    the stage was known. ``right`` is function, file, no, or compiled; empty where the fix is not known.
    """

    case: str
    failing: str
    passing: str
    named: str
    both_ways: str
    confidence: str
    probes: str
    runs: str
    minutes: str
    fix: str
    right: str

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.case, self.failing, self.passing)


def flips(pythons: Sequence[str], names: Sequence[str]) -> list[tuple[Case, str]]:
    """The cases whose answer differs between the two builds, with the interpreter on which each fails."""
    builds = {release(torch_version(python)): python for python in pythons}
    found = []
    for case in load_cases(names=names):
        failing = [build for build in builds if build in case.fails_on]
        if len(failing) == 1 and any(build in case.passes_on for build in builds):
            found.append((case, builds[failing[0]]))
    return found


def asked(case: Case, python: str, pythons: Sequence[str], options: argparse.Namespace) -> Row:
    """One case bisected with its change."""
    started = time.monotonic()
    releases = [release(torch_version(one)) for one in pythons]
    given = ["--versions", ",".join(releases), "--pythons", os.pathsep.join(pythons), "--no-companions"]
    given += ["--change", "--change-for", options.change_for, "--timeout", str(options.timeout)]
    found = run_bisect(python, case.command, args=(*given, *case.args), env=case.env, timeout_s=options.limit)
    failing = release(torch_version(python))
    passing = next(one for one in releases if one != failing)
    minutes = (time.monotonic() - started) / 60
    return row_of(case, failing, passing, found.findings, minutes)


def row_of(case: Case, failing: str, passing: str, findings: dict[str, Any] | None, minutes: float) -> Row:
    """What the findings say of the change, beside what the public fix changed."""
    change = change_of(findings)
    pieces = [f"{piece['file']}::{piece['symbol']}" for piece in change.get("pieces", ())]
    both: bool | None = change.get("both_ways")
    why = str(change.get("why", "")) or ("no flip was found" if findings else "no findings were printed")
    return Row(
        case=case.slug,
        failing=failing,
        passing=passing,
        named="; ".join(pieces) or why,
        both_ways={True: "yes", False: "no", None: "not asked"}[both] if pieces else "",
        confidence={True: "proven", False: "refuted", None: "likely"}[both] if pieces else "",
        probes=str((findings or {}).get("probes", "")),
        runs=str(change.get("runs", "")),
        minutes=f"{minutes:.1f}",
        fix="; ".join(case.change),
        right=rightness(case.change, pieces, why),
    )


def rightness(fix: Sequence[str], pieces: Sequence[str], why: str) -> str:
    """How near the named pieces are to the public fix; ``compiled`` where both say compiled code."""
    if not fix:
        return ""
    if not pieces:
        compiled = all(one.partition("::")[0].endswith(COMPILED) for one in fix)
        return "compiled" if compiled and "compiled code" in why else "no"
    if set(pieces) & set(fix):
        return "function"
    files, fixed = ({one.partition("::")[0] for one in places} for places in (pieces, fix))
    return "file" if files & fixed else "no"


def change_of(findings: dict[str, Any] | None) -> dict[str, Any]:
    """The change at the newest flip."""
    flips_found = ((findings or {}).get("versions") or {}).get("flips") or []
    return dict(flips_found[-1].get("change") or {}) if flips_found else {}


def read(path: Path) -> dict[tuple[str, str, str], Row]:
    """The rows of a table; none where there is no file."""
    return {row.key: row for row in tables.read(path, Row)}


def write(path: Path, rows: Iterable[Row]) -> None:
    """All rows, sorted by case and releases."""
    tables.write(path, Row, sorted(rows, key=lambda row: row.key))


def summary(rows: Sequence[Row]) -> str:
    """How many name the function, the file, compiled code; how many are wrong as proven; runs and minutes."""
    known = [row for row in rows if row.fix]
    counts = {
        word: sum(row.right == word for row in known) for word in ("function", "file", "compiled", "no")
    }
    wrong = [row.case for row in known if row.right == "no" and row.confidence == "proven"]
    runs = [int(row.runs) for row in rows if row.runs.isdigit()]
    minutes = [float(row.minutes) for row in rows]
    lines = [
        f"{len(rows)} flips, {len(known)} with a known fix: "
        + ", ".join(f"{n} {w}" for w, n in counts.items()),
        f"wrong as proven: {', '.join(wrong) or 'none'}",
    ]
    if runs:
        few = sum(one <= 12 for one in runs)
        lines.append(f"runs once the stage is known: median {median(runs):g}; {few} of {len(runs)} within 12")
    if minutes:
        lines.append(f"minutes: median {median(minutes):.1f}")
    return "\n".join(lines)


def main() -> None:
    """Print one row a case as it is reached, tab-separated."""
    stop_when_asked()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", help="two interpreters with torch, separated by ':'")
    parser.add_argument("--save", action="store_true", help="put the rows into the table")
    parser.add_argument("--table", type=Path, default=TABLE, help=f"the table ({TABLE.name} by default)")
    parser.add_argument("--again", action="store_true", help="ask cases that the table has already too")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for one case")
    parser.add_argument("--change-for", default="10m", help="time for the change of one case")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run of a script")
    parser.add_argument("--summary", action="store_true", help="count what the table says; run nothing")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    table = read(given.table) if given.save or given.summary else {}
    if given.summary:
        print(summary(list(table.values())))
        return
    pythons = (given.pythons or "").split(os.pathsep)
    if len(pythons) != 2:
        parser.error("--pythons takes two interpreters")
    print("\t".join(tables.head_of(Row)))
    releases = {release(torch_version(python)) for python in pythons}
    there = {row.case for row in table.values() if {row.failing, row.passing} == releases}
    for case, python in flips(pythons, given.names):
        if case.slug in there and not given.again:
            continue
        row = asked(case, python, pythons, given)
        print("\t".join(tables.cells(row)), flush=True)
        if row.probes:  # without findings there was no answer, so the case is asked again next time
            table[row.key] = row
        if given.save:
            write(given.table, table.values())


if __name__ == "__main__":
    main()
