"""The walk of somebody whose accelerator computes wrong numbers, for every seeded fault of the mock.

    python benchmarks/accelerator_walk.py [--python PATH] [--minimize SECONDS] [--output FILE] [FAULT ...]

A script of ``fault_scripts/`` is bisected with its fault on, as a user would do it. Its bundle is unpacked
into an empty folder and ``rerun.py`` is run there in a fresh process whose environment has nothing but the
way to accel-lab: neither the fault nor any other variable. It must say MATCH. A row also says whether the
bundle has the checklist of the accelerator's guide. Exit code 1 unless every row ends in MATCH with the right
stage.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seeded import FAULTS, ROOT, Fault

ON_MOCK = {name: fault for name, fault in FAULTS.items() if fault.on_mock}
#: What the accelerator's guide asks a report for, as the ends of names in the bundle.
CHECKLIST = ("transfers.jsonl", "loop_ir.txt", "fused.txt", "tiled.txt", "memory_plan.txt", "versions.json")
#: What a clean environment keeps: where programs are found, and a place for temporary files.
KEPT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass(frozen=True, kw_only=True)
class Walk:
    """One fault: the stage and component that were named, what the bundle has, and what running it said.

    ``rerun`` is MATCH, MISMATCH, or why nothing was run. ``lacking`` are files of the checklist.
    """

    fault: str
    script: str
    want: str
    got: str = ""
    confidence: str = ""
    component: str = ""
    lacking: tuple[str, ...] = ()
    rerun: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the walk ended as it must."""
        return self.rerun == "MATCH" and self.got == self.want and not self.lacking


def walk(fault: Fault, script: Path, python: str, *, minimize: float, timeout_s: float) -> Walk:
    """Bisect, unpack, run again."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accel-lab-walk-") as name:
        folder = Path(name)
        program = fault.program(script, folder)
        try:
            found = _bisected(fault, program, folder, python, minimize, timeout_s)
            rerun, lacking = _run_again(found, folder / "bundle", python, timeout_s)
        except (subprocess.TimeoutExpired, ValueError, OSError) as error:
            found, rerun, lacking = {}, f"no bundle: {type(error).__name__}: {error}"[:200], CHECKLIST
    culprit = found.get("culprit") or {}
    component = culprit.get("component") or {}
    return Walk(
        fault=fault.name,
        script=script.name,
        want=fault.want,
        got=culprit.get("stage", ""),
        confidence=culprit.get("confidence", ""),
        component=" ".join(filter(None, (component.get("kind"), component.get("name")))),
        lacking=lacking,
        rerun=rerun,
        seconds=time.monotonic() - began,
    )


def clean_environment(folder: Path) -> dict[str, str]:
    """Nothing of the caller's but where programs are, and where accel-lab is installed."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT / "bisect"), "ACCEL_LAB_HOME": str(folder / "home")}


def _bisected(
    fault: Fault, program: Path, folder: Path, python: str, minimize: float, timeout_s: float
) -> dict[str, Any]:
    command = [sys.executable, "-m", "accel_lab", "bisect", "--accelerator", "mock", "--json", "--quiet"]
    command += ["--python", python, "--no-verify"]  # it is run again below
    command += ["--minimize-for", str(minimize)] if minimize else ["--no-minimize"]
    ended = subprocess.run(
        [*command, str(program)],
        check=False,
        cwd=folder,
        env={**clean_environment(folder), **fault.environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if not ended.stdout.strip():
        raise ValueError(f"exit {ended.returncode}: {ended.stderr.strip()[-150:]}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _run_again(
    found: dict[str, Any], place: Path, python: str, timeout_s: float
) -> tuple[str, tuple[str, ...]]:
    """What ``rerun.py`` of the bundle says, and what the bundle lacks."""
    if not found.get("bundle"):
        return f"no bundle: verdict {found.get('verdict')}", CHECKLIST
    with zipfile.ZipFile(found["bundle"]) as bundle:
        names = [name for name in bundle.namelist() if name.startswith("accelerator/")]
        bundle.extractall(place)  # the lab's own, of a moment ago
    lacking = tuple(end for end in CHECKLIST if not any(name.endswith("/" + end) for name in names))
    ended = subprocess.run(
        [python, str(place / "rerun.py")],
        check=False,
        cwd=place,
        env=clean_environment(place.parent),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    said = next((word for word in ("MISMATCH", "MATCH") if f"{word}: " in ended.stdout), "")
    if (said, ended.returncode) in (("MATCH", 0), ("MISMATCH", 1)):
        return said, lacking
    return f"exit {ended.returncode}: {(ended.stdout + ended.stderr).strip()[-150:]}", lacking


def table(rows: Sequence[Walk]) -> str:
    """The rows as text, and the count."""
    lines = [
        f"{'ok' if row.holds else 'NO':3s} {row.fault:29s} {row.got or '-':15s} {row.confidence or '-':12s} "
        f"{row.rerun:9s} {row.seconds:5.0f} s  {row.component}"
        + (f"  LACKS {', '.join(row.lacking)}" if row.lacking else "")
        for row in rows
    ]
    return "\n".join([*lines, f"{sum(row.holds for row in rows)} of {len(rows)} walks end in MATCH"])


def walk_all(given: argparse.Namespace) -> Iterator[Walk]:
    """The rows in the order of the faults, told as they come."""
    for name in given.faults or ON_MOCK:
        fault = ON_MOCK[name]
        row = walk(fault, fault.scripts[0], given.python, minimize=given.minimize, timeout_s=given.timeout)
        sys.stderr.write(f"{row.rerun}: {row.script} -> {row.got or '-'} {row.confidence}\n")
        yield row


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="all unless named")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to probe")
    parser.add_argument("--minimize", type=float, default=0.0, help="seconds to shrink each script for")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one command")
    parser.add_argument("--output", type=Path, help="also write the rows as JSON, as they come")
    given = parser.parse_args(words)
    unknown = set(given.faults) - set(ON_MOCK)
    if unknown:
        parser.error(f"no fault is called {min(unknown)}; there are {', '.join(ON_MOCK)}")
    rows: list[Walk] = []
    for row in walk_all(given):
        rows.append(row)
        if given.output is not None:
            told = [{**one.__dict__, "holds": one.holds} for one in rows]
            given.output.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    sys.stdout.write(table(rows) + "\n")
    return int(not all(row.holds for row in rows))


if __name__ == "__main__":
    sys.exit(main())
