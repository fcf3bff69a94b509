"""Ways around golden cases: which case gets one, what it costs, and which known failure is matched.

``python benchmarks/workarounds.py --python PYTHON [NAME…]``: the golden cases that fail on that build, or
those with one of the names. ``--reworded``: the scripts of ``benchmarks/reworded`` instead, each of which is
a golden case in other words, so that its number has to be matched. ``--unrelated``: golden cases that the
catalogue does not have, of which none may be matched. One row a case, tab-separated, and last the counts.
With ``--save`` a row replaces the row of the same script and build in the table as it is reached;
``--whole`` bisects as a user does by default, with reduction and bundle. ``--summary`` only counts what the
table says. ``localize.py --workarounds`` makes rows of golden cases too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tables
from catalogue import fits
from golden import ROOT, Case, load_cases, release
from harness import run_bisect, stop_when_asked, torch_version

#: The rows that are committed.
TABLE = Path(__file__).resolve().parent / "workarounds.tsv"
#: No part of the compiler is at fault there, so there is nothing to get around.
_NOT_OURS = frozenset({"eager", "environment"})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A script, what it is run with, and the entry of the catalogue that it must match (empty: none)."""

    name: str
    command: list[str]
    args: tuple[str, ...] = ()
    env: dict[str, str]
    wanted: str = ""


def asked_of(case: Case, build: str) -> Asked | None:
    """A golden case; None where there is nothing to get around on that build."""
    if build not in case.fails_on or case.status == "by_design" or set(case.stages_on(build)) & _NOT_OURS:
        return None
    return Asked(
        name=case.slug,
        command=case.command,
        args=case.args,
        env=dict(case.env),
        wanted=case.slug if fits(case) else "",
    )


def golden(build: str, names: list[str], *, unrelated: bool) -> list[Asked]:
    """The golden cases that fail on a build; or those of them that the catalogue does not have."""
    asked = (asked_of(case, build) for case in load_cases(names=names))
    return [one for one in asked if one is not None and not (unrelated and one.wanted)]


def reworded(names: list[str]) -> list[Asked]:
    """The scripts that are a golden case in other words."""
    paths = sorted((ROOT / "benchmarks" / "reworded").glob("*.py"))
    return [
        Asked(name=path.stem, command=[str(path)], env={}, wanted=path.stem)
        for path in paths
        if not names or path.stem in names
    ]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One script on one build.

    ``set`` is golden, reworded or unrelated. ``workarounds`` are their kinds, cheapest first. ``cost`` is the
    first one's time over eager's. ``share`` is the time of the search for workarounds over that of the rest
    of a bisection without reduction and bundle, ``whole`` over the rest of a bisection with both. ``known``
    are the matched entries of the catalogue, ``wanted`` is the one that has to be.
    """

    set: str
    case: str
    build: str
    stage: str
    component: str
    workarounds: str
    cost: str
    share: str
    whole: str
    known: str
    wanted: str

    @property
    def key(self) -> tuple[str, str, tuple[tuple[int, str], ...]]:
        return (self.set, self.case, tables.by_release(self.build))


def row_of(which: str, asked: Asked, build: str, found: dict[str, Any], *, whole: bool = False) -> Row:
    """What the findings of one script say of its workarounds; ``whole`` if it was reduced and bundled too."""
    culprit, ways, seconds = (found.get(key) or {} for key in ("culprit", "workarounds", "seconds"))
    cost = (ways[0].get("cost") or {}) if ways else {}
    rest = seconds.get("total", 0) - seconds.get("workarounds", 0)
    share = f"{seconds['workarounds'] / rest:.2f}" if rest > 0 and "workarounds" in seconds else ""
    return Row(
        set=which,
        case=asked.name,
        build=build,
        stage=str(culprit.get("stage", found.get("verdict", "no answer"))),
        component=str((culprit.get("component") or {}).get("name", "")).replace(f"{ROOT}/", ""),
        workarounds=", ".join(str(way["kind"]) for way in ways),
        cost=f"{cost['seconds'] / cost['eager']:.2f}" if cost.get("eager") else "",
        share="" if whole else share,
        whole=share if whole else "",
        known=", ".join(str(known["entry"]) for known in found.get("known") or []),
        wanted=asked.wanted,
    )


def bisected(which: str, asked: Asked, python: str, build: str, limit_s: float, *, whole: bool) -> Row:
    """One script bisected with its workarounds."""
    ended = run_bisect(
        python,
        asked.command,
        args=asked.args,
        env=asked.env,
        timeout_s=limit_s,
        workarounds=True,
        whole=whole,
    )
    return row_of(which, asked, build, ended.findings or {}, whole=whole)


def save(path: Path, row: Row) -> None:
    """Puts a row into the table in place of that of the same script and build.

    What only the other kind of bisection measures stays.
    """
    rows = {old.key: old for old in tables.read(path, Row)}
    old = rows.get(row.key)
    if old is not None:
        row = replace(row, share=row.share or old.share, whole=row.whole or old.whole)
    rows[row.key] = row
    tables.write(path, Row, sorted(rows.values(), key=lambda one: one.key))


def summary(rows: Sequence[Row]) -> str:
    """How many have a workaround, what it and the search for it cost, and how the catalogue was matched.

    A script that turned out to fail in eager mode or by the environment needs none and is not counted.
    """
    ours = [row for row in rows if row.set != "reworded" and row.stage not in _NOT_OURS]
    lines = []
    if ours:
        found = sum(bool(row.workarounds) for row in ours)
        lines.append(f"{found} of {len(ours)} have a verified workaround")
    for words, cells in (
        ("the cheapest takes {:.2f} times eager's time", [row.cost for row in rows]),
        ("looking for one takes {:.2f} times the rest of the bisection", [row.whole for row in ours]),
        ("and {:.2f} times the rest where nothing is reduced or bundled", [row.share for row in ours]),
    ):
        if numbers := [float(cell) for cell in cells if cell]:
            lines.append(f"{words.format(statistics.median(numbers))} (median of {len(numbers)})")
    wanted = [row for row in rows if row.wanted]
    strange = [row for row in rows if not row.wanted]
    for name in ("golden", "reworded"):
        if some := [row for row in wanted if row.set == name]:
            matched = sum(row.wanted in row.known.split(", ") for row in some)
            lines.append(f"{matched} of {len(some)} {name} scripts of the catalogue are matched")
    if strange:
        lines.append(f"{sum(bool(row.known) for row in strange)} of {len(strange)} others are matched")
    return "\n".join(lines)


def main() -> None:
    """Print one row a case as it is reached."""
    stop_when_asked()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for one case")
    parser.add_argument("--save", action="store_true", help="put the rows into the table")
    parser.add_argument("--table", type=Path, default=TABLE, help=f"the table ({TABLE.name} by default)")
    parser.add_argument("--whole", action="store_true", help="reduce and bundle too, as is the default")
    parser.add_argument("--summary", action="store_true", help="count what the table says; run nothing")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--reworded", action="store_true")
    which.add_argument("--unrelated", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.summary:
        print(summary(tables.read(given.table, Row)))
        return
    python = os.path.abspath(given.python)
    build = release(torch_version(python))
    name = "reworded" if given.reworded else "unrelated" if given.unrelated else "golden"
    asked = reworded(given.names) if given.reworded else golden(build, given.names, unrelated=given.unrelated)
    print("\t".join(tables.head_of(Row)))
    rows = []
    for one in asked:
        rows.append(bisected(name, one, python, build, given.limit, whole=given.whole))
        print("\t".join(tables.cells(rows[-1])), flush=True)
        if given.save:
            save(given.table, rows[-1])
    print(summary(rows))


if __name__ == "__main__":
    main()
