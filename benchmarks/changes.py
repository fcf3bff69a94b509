"""Asks ``bisect --change`` for the change at a flip between two builds, and compares it with the public fix.

``python benchmarks/changes.py --pythons OLD:NEW [NAME…]``: the golden cases that fail on one build and pass
on the other, or those with one of the names. One row a case: what was named, whether it holds in both
directions, the runs, and whether it is what the public fix changed, where ``expect.toml`` says that.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from golden import Case, load_cases, release
from harness import run_bisect, torch_version

HEAD = ("case", "named", "both ways", "runs", "minutes", "public fix")


def flips(pythons: list[str], names: list[str]) -> list[tuple[Case, str]]:
    """The cases whose answer differs between the two builds, with the interpreter on which each fails."""
    builds = {release(torch_version(python)): python for python in pythons}
    found = []
    for case in load_cases(names=names):
        failing = [build for build in builds if build in case.fails_on]
        if len(failing) == 1 and any(build in case.passes_on for build in builds):
            found.append((case, builds[failing[0]]))
    return found


def row(case: Case, python: str, pythons: list[str], limit_s: float) -> tuple[str, ...]:
    """One case bisected with its change."""
    started = time.monotonic()
    line = ",".join(release(torch_version(one)) for one in pythons)
    options = ["--versions", line, "--pythons", os.pathsep.join(pythons), "--change", "--no-companions"]
    found = run_bisect(python, case.command, args=(*options, *case.args), env=case.env, timeout_s=limit_s)
    minutes = f"{(time.monotonic() - started) / 60:.1f}"
    change = change_of(found.findings)
    if not change.get("found"):
        return (
            case.slug,
            str(change.get("why", "no flip was found"))[:60],
            "",
            str(change.get("runs", "")),
            minutes,
            "",
        )
    named = [f"{piece['file']}::{piece['symbol']}" for piece in change["pieces"]]
    right = ""
    if case.change:
        same_file = {one.split("::")[0] for one in named} & {one.split("::")[0] for one in case.change}
        right = "function" if set(named) & set(case.change) else "file" if same_file else "no"
    both = {True: "yes", False: "no", None: "not asked"}[change["both_ways"]]
    return (case.slug, "; ".join(named), both, str(change["runs"]), minutes, right)


def change_of(findings: dict[str, Any] | None) -> dict[str, Any]:
    """The change at the newest flip."""
    flips_found = ((findings or {}).get("versions") or {}).get("flips") or []
    return dict(flips_found[-1].get("change") or {}) if flips_found else {}


def main() -> None:
    """Print one row a case as it is reached, tab-separated."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", required=True, help="two interpreters with torch, separated by ':'")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for one case")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    pythons = given.pythons.split(os.pathsep)
    if len(pythons) != 2:
        parser.error("--pythons takes two interpreters")
    print("\t".join(HEAD))
    for case, python in flips(pythons, given.names):
        print("\t".join(row(case, python, pythons, given.limit)), flush=True)


if __name__ == "__main__":
    main()
