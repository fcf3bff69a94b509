"""Ways around golden cases: which case gets one, what it costs, and which known failure is matched.

``python benchmarks/workarounds.py --python PYTHON [NAME…]``: the golden cases that fail on that build, or
those with one of the names. ``--reworded``: the scripts of ``benchmarks/reworded`` instead, each of which is
a golden case in other words, so that its number has to be matched. ``--unrelated``: golden cases that the
catalogue does not have, of which none may be matched. One row a case, tab-separated, and a last line with
the counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from catalogue import fits
from golden import ROOT, load_cases, release
from harness import run_bisect, torch_version

HEAD = ("case", "stage", "component", "workarounds", "cost", "share", "known")
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


def golden(build: str, names: list[str], *, unrelated: bool) -> list[Asked]:
    """The golden cases that fail on a build; or those of them that the catalogue does not have."""
    cases = [
        case for case in load_cases(names=names) if build in case.fails_on and case.status != "by_design"
    ]
    return [
        Asked(
            name=case.slug,
            command=case.command,
            args=case.args,
            env=dict(case.env),
            wanted=case.slug if fits(case) else "",
        )
        for case in cases
        if not set(case.stages_on(build)) & _NOT_OURS and not (unrelated and fits(case))
    ]


def reworded(names: list[str]) -> list[Asked]:
    """The scripts that are a golden case in other words."""
    paths = sorted((ROOT / "benchmarks" / "reworded").glob("*.py"))
    return [
        Asked(name=path.stem, command=[str(path)], env={}, wanted=path.stem)
        for path in paths
        if not names or path.stem in names
    ]


def row(asked: Asked, python: str, limit_s: float) -> tuple[tuple[str, ...], dict[str, Any]]:
    """One script bisected with its workarounds; the row, and the findings."""
    options = ("--workarounds-for", f"{limit_s / 4:.0f}s", *asked.args)
    ended = run_bisect(
        python, asked.command, args=options, env=asked.env, timeout_s=limit_s, workarounds=True
    )
    found = ended.findings or {}
    culprit = found.get("culprit") or {}
    ways = found.get("workarounds") or []
    cost = (ways[0].get("cost") or {}) if ways else {}
    ratio = f"{cost['seconds'] / cost['eager']:.2f}x eager" if cost.get("eager") else ""
    return (
        asked.name,
        str(culprit.get("stage", found.get("verdict", "no answer"))),
        str((culprit.get("component") or {}).get("name", "")),
        ", ".join(str(way["kind"]) for way in ways),
        ratio,
        f"{ended.ended.seconds:.0f} s",
        ", ".join(str(known["entry"]) for known in found.get("known") or []),
    ), found


def main() -> None:
    """Print one row a case as it is reached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", required=True, help="an interpreter with torch")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for one case")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--reworded", action="store_true")
    which.add_argument("--unrelated", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    python = os.path.abspath(given.python)
    build = release(torch_version(python))
    asked = reworded(given.names) if given.reworded else golden(build, given.names, unrelated=given.unrelated)
    print("\t".join(HEAD))
    around, matched, strays, ratios = 0, 0, 0, []
    for one in asked:
        cells, found = row(one, python, given.limit)
        print("\t".join(cells), flush=True)
        around += bool(found.get("workarounds"))
        known = [entry["entry"] for entry in found.get("known") or []]
        matched += one.wanted in known
        strays += bool(known) and not one.wanted
        costs = [way["cost"] for way in found.get("workarounds") or [] if way.get("cost")]
        ratios += [cost["seconds"] / cost["eager"] for cost in costs[:1] if cost.get("eager")]
    said = f"{around} of {len(asked)} have a workaround; {matched} are matched; {strays} strays"
    cost = (
        f"; the cheapest takes {statistics.median(ratios):.2f} times eager's time (median)" if ratios else ""
    )
    print(said + cost)


if __name__ == "__main__":
    main()
