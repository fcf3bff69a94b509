"""The lab's score on known truth: seed each fault, bisect scripts that show it, count the layers named.

    python benchmarks/faults.py [--python PATH] [--only mock|inductor] [--jobs N] [--json] [FAULT ...]

A script ``fault_scripts/<fault>__<what>.py`` is bisected with that fault on: the mock's with
``--accelerator mock``, the compiler's as any other script. Exit code 1 when a wrong part is named, or when a
fault has no script; 0 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seeded import FAULTS, ROOT, Fault

#: Answers that are true of these stages and do not go as deep.
COARSER = {"kernel": ("lowering", "scheduler", "codegen", "runtime")}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault with one script: what should be named, what was, and at what cost.

    ``part``: whether the component is the right one; None where no right one is known or none was named.
    """

    fault: str
    script: str
    want: str
    got: str = ""
    confidence: str = ""
    component: str = ""
    component_confidence: str = ""
    part: bool | None = None
    seconds: float = 0.0
    probes: int = 0
    note: str = ""

    @property
    def grade(self) -> str:
        """right, wrong or cannot tell; a script that does not show its fault is told apart."""
        if self.note:
            return self.note
        if not self.got or self.confidence == "inconclusive" or self.want in COARSER.get(self.got, ()):
            return "cannot tell"
        return "right" if self.got == self.want else "wrong"

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "grade": self.grade}


def graded(fault: Fault, script: str, found: dict[str, Any]) -> Row:
    """The row that a bisection's JSON gives."""
    culprit = found.get("culprit") or {}
    component = culprit.get("component") or {}
    return Row(
        fault=fault.name,
        script=script,
        want=fault.want,
        got=culprit.get("stage", ""),
        confidence=culprit.get("confidence", ""),
        component=" ".join(filter(None, (component.get("kind"), component.get("name")))),
        component_confidence=component.get("confidence", ""),
        part=fault.part in component["name"] if component and fault.part else None,
        seconds=found["seconds"]["total"],
        probes=found["probes"],
        note="does not show" if found["verdict"] == "passes" else "",
    )


def bisect(script: Path, fault: Fault, python: str, *, quick: bool, timeout_s: float) -> Row:
    """Bisect a script with a fault on, in a folder of its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MOCK_")},
            "PYTHONPATH": str(ROOT / "bisect"),
            "ACCEL_LAB_HOME": str(folder / "home"),
            **fault.environment,
        }
        command = [sys.executable, "-m", "accel_lab", "bisect", "--json", "--quiet", "--no-bundle"]
        command += ["--no-minimize", "--no-workarounds", "--python", python]
        command += ["--no-components"] if quick else []
        command += ["--accelerator", "mock"] if fault.on_mock else []
        note = ""
        try:
            ended = subprocess.run(
                [*command, str(fault.program(script, folder))],
                check=False,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout_s,
            )
            return graded(fault, script.name, json.loads(ended.stdout))
        except subprocess.TimeoutExpired:
            note = "out of time"
        except ValueError:
            note = f"no answer (exit {ended.returncode}): {ended.stderr.strip()[-200:]}"
    seconds = time.monotonic() - started
    return Row(fault=fault.name, script=script.name, want=fault.want, seconds=seconds, note=note)


def table(rows: Sequence[Row]) -> str:
    """The rows as text, and the counts."""
    lines = [
        f"{row.grade:12s} {row.fault:31s} {row.script.partition('__')[2]:17s} {row.got or '-':15s} "
        f"{row.confidence:9s} {row.probes:3d} probes {row.seconds:5.0f} s  "
        + (f"{row.component} ({row.component_confidence})" if row.component else "")
        + ("  WRONG PART" if row.part is False else "")
        for row in rows
    ]
    for mock, what in ((True, "mock accelerator"), (False, "compiler")):
        chosen = [row for row in rows if FAULTS[row.fault].on_mock is mock]
        if chosen:
            lines.append(f"{what}: {counts(chosen)}")
    return "\n".join(lines)


def counts(rows: Sequence[Row]) -> str:
    """How many rows are right and wrong, and how many faults."""
    grades = Counter(row.grade for row in rows)
    right = {row.fault for row in rows if row.grade == "right"}
    named = right - {row.fault for row in rows if row.grade == "wrong"}
    proven = sum(row.grade == "right" and row.confidence == "proven" for row in rows)
    known = [row.part for row in rows if row.part is not None]
    text = ", ".join(f"{count} {grade}" for grade, count in grades.most_common())
    text += f" ({proven} of the right ones proven); {len(named)} of {len({row.fault for row in rows})} faults"
    text += " named right and never wrong"
    return text + (f"; the component right in {sum(known)} of {len(known)}" if known else "")


def summary(rows: Sequence[Row], missing: Sequence[str]) -> dict[str, Any]:
    """The whole as JSON."""
    return {
        "schema": "accel-lab/faults/1",
        "grades": dict(Counter(row.grade for row in rows)),
        "without_script": list(missing),
        "rows": [row.to_json() for row in rows],
    }


def bisect_all(given: argparse.Namespace, faults: Sequence[Fault]) -> Iterator[Row]:
    """The rows in the order of the faults, told as they come."""
    with ThreadPoolExecutor(max_workers=given.jobs) as pool:
        jobs = [
            pool.submit(bisect, script, fault, given.python, quick=given.quick, timeout_s=given.timeout)
            for fault in faults
            for script in fault.scripts[: 1 if given.first else None]
        ]
        for job in jobs:
            row = job.result()
            sys.stderr.write(f"{row.grade}: {row.script} -> {row.got or '-'} {row.confidence}\n")
            yield row


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="all unless named")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to probe")
    parser.add_argument(
        "--only", choices=["mock", "inductor"], help="the accelerator's faults or the compiler's"
    )
    parser.add_argument("--jobs", type=int, default=1, help="bisections side by side")
    parser.add_argument("--quick", action="store_true", help="the layer only, no component")
    parser.add_argument("--first", action="store_true", help="one script for each fault")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one bisection")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--output", type=Path, help="also write the rows as JSON, as they come")
    given = parser.parse_args(words)
    unknown = set(given.faults) - set(FAULTS)
    if unknown:
        parser.error(f"no fault is called {min(unknown)}; there are {', '.join(FAULTS)}")
    faults = [FAULTS[name] for name in given.faults or FAULTS]
    if given.only:
        faults = [fault for fault in faults if fault.on_mock is (given.only == "mock")]
    missing = [fault.name for fault in faults if not fault.scripts]
    rows: list[Row] = []
    for row in bisect_all(given, faults):
        rows.append(row)
        if given.output is not None:
            given.output.write_text(json.dumps(summary(rows, missing), indent=1) + "\n", "utf-8")
    if given.json:
        sys.stdout.write(json.dumps(summary(rows, missing), indent=1) + "\n")
    else:
        sys.stdout.write(table(rows) + "\n")
        if missing:
            sys.stdout.write("no script shows: " + ", ".join(missing) + "\n")
    return int(bool(missing) or any(row.grade == "wrong" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
