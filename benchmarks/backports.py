"""Makes the backport of golden cases whose public fix is known, and runs each by plain Python.

``python benchmarks/backports.py --pythons OLD:NEW [NAME…]``: the cases with a ``change`` in ``expect.toml``
that fail on OLD and pass on NEW. The piece is the one that the public fix changed, not one that was searched.
What is measured is the file that serves it: the script fails without it, passes with it, and another release
refuses it. One row a case, tab-separated; ``backports.tsv`` has rows from 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from accel_lab.core.releases.flip_change import FlipChange, Piece
from accel_lab.search.change.backport import NAME, backport_text, patch_of
from accel_lab.search.change.companions import closure
from accel_lab.search.change.pieces import Versions
from golden import ROOT, Case, load_cases, release
from harness import clean_environment, run_command, torch_version

HEAD = ("script", "piece", "lines", "without", "with", "other release")


def folder_of_torch(python: str) -> Path:
    """Where an interpreter has its packages."""
    code = "import importlib.util as u, json; print(json.dumps(u.find_spec('torch').origin))"
    said = run_command([python, "-c", code], env=dict(os.environ), timeout_s=120).stdout
    return Path(json.loads(said)).parents[1]


class Sources:
    """Both versions of each file of torch, parsed once."""

    def __init__(self, old: Path, new: Path) -> None:
        self._old, self._new = old, new
        self._known: dict[str, Versions | None] = {}

    def versions(self, path: str) -> Versions | None:
        """None where the file is the same in both, or is in one of them only."""
        if path not in self._known:
            try:
                one, two = ((root / path).read_text(encoding="utf-8") for root in (self._old, self._new))
                self._known[path] = Versions.of(path, one, two) if one != two else None
            except OSError:
                self._known[path] = None
        return self._known[path]

    def patched(self, chosen: dict[str, frozenset[str]]) -> list[tuple[str, str, str]]:
        """Each file as the old release has it, and with the chosen pieces and what travels with them."""
        found = []
        for path, keys in closure(chosen, self.versions).items():
            versions = self.versions(path)
            if versions is not None:
                found.append((path, versions.base.source, versions.mixed(keys)))
        return found


def row(case: Case, pythons: tuple[str, str], sources: Sources, limit_s: float) -> tuple[str, ...]:
    """One case: the exit codes without and with the backport, and what another release says to it."""
    chosen: dict[str, set[str]] = {}
    for name in case.change:
        path, _, key = name.partition("::")
        chosen.setdefault(path, set()).add(key)
    change = FlipChange(
        found=True,
        patch=patch_of(sources.patched({path: frozenset(keys) for path, keys in chosen.items()})),
        pieces=tuple(Piece(file=path, symbol=key) for path, keys in chosen.items() for key in keys),
    )
    old, new = (release(torch_version(python)) for python in pythons)
    text = backport_text(change, release=old, fixed=new)
    if not text:
        return (_script(case), ", ".join(case.change), "0", "", "", "")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{NAME}.py").write_text(text, encoding="utf-8")
        env = clean_environment(folder, case.env)
        served = {**env, "PYTHONPATH": folder}
        script = case.command[0]
        code = f"import {NAME}, runpy; runpy.run_path({script!r}, run_name='__main__')"
        without = run_command([pythons[0], script], env=env, timeout_s=limit_s, cwd=folder)
        with_it = run_command([pythons[0], "-c", code], env=served, timeout_s=limit_s, cwd=folder)
        other = run_command([pythons[1], "-c", f"import {NAME}"], env=served, timeout_s=limit_s, cwd=folder)
    refused = "refused" if "remove it" in other.stderr and other.code == 1 else f"exit {other.code}"
    lines = str(len(text.splitlines()))
    return (
        _script(case),
        ", ".join(case.change),
        lines,
        f"exit {without.code}",
        f"exit {with_it.code}",
        refused,
    )


def _script(case: Case) -> str:
    return str(Path(case.command[0]).relative_to(ROOT))


def main() -> None:
    """Print one row a case as it is reached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pythons", required=True, help="two interpreters with torch, separated by ':'")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one run")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    pythons = given.pythons.split(os.pathsep)
    if len(pythons) != 2:
        parser.error("--pythons takes two interpreters")
    old, new = pythons
    sources = Sources(folder_of_torch(old), folder_of_torch(new))
    builds = release(torch_version(old)), release(torch_version(new))
    print("\t".join(HEAD))
    for case in load_cases(names=given.names):
        if case.change and builds[0] in case.fails_on and builds[1] in case.passes_on:
            print("\t".join(row(case, (old, new), sources, given.limit)), flush=True)


if __name__ == "__main__":
    main()
