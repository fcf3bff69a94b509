"""The accelerator's score: seed each fault of the mock, bisect scripts that show it, count the layers named.

    python benchmarks/faults.py [--python PATH] [--quick] [--output FILE] [FAULT ...]

A script ``fault_scripts/<fault>__<what>.py`` is bisected with that fault on. Exit code 1 when a wrong part is
called proven, or when a named fault has no script; 0 otherwise.
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(__file__).resolve().parent / "fault_scripts"
sys.path.insert(0, str(ROOT / "bisect"))

from accel_lab.mock.faults import CATALOGUE, VARIABLE  # noqa: E402 - the path is set above


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault with one script: what should be named, what was, and at what cost."""

    fault: str
    script: str
    want: str
    got: str
    confidence: str
    component: str
    seconds: float
    probes: int
    note: str = ""

    @property
    def grade(self) -> str:
        """right, wrong or cannot tell; a script that does not show its fault is told apart."""
        if self.note:
            return self.note
        if not self.got or self.confidence == "inconclusive":
            return "cannot tell"
        return "right" if self.got == self.want else "wrong"

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "grade": self.grade}


def graded(fault: str, script: str, found: dict[str, Any]) -> Row:
    """The row that a bisection's JSON gives."""
    culprit = found.get("culprit") or {}
    component = culprit.get("component") or {}
    return Row(
        fault=fault,
        script=script,
        want="mock." + CATALOGUE[fault].side,
        got=culprit.get("stage", ""),
        confidence=culprit.get("confidence", ""),
        component=" ".join(filter(None, (component.get("kind"), component.get("name")))),
        seconds=found["seconds"]["total"],
        probes=found["probes"],
        note="does not show" if found["verdict"] == "passes" else "",
    )


def bisect(script: Path, fault: str, python: str, *, quick: bool, timeout_s: float) -> Row:
    """Bisect a script with a fault on, in a folder of its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MOCK_")},
            "PYTHONPATH": str(ROOT / "bisect"),
            "ACCEL_LAB_HOME": folder,
            VARIABLE: fault,
        }
        command = [sys.executable, "-m", "accel_lab", "bisect", "--accelerator", "mock", "--json", "--quiet"]
        command += ["--no-bundle", "--python", python, *(["--no-components"] if quick else []), str(script)]
        note = ""
        try:
            ended = subprocess.run(
                command,
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
    return Row(
        fault=fault,
        script=script.name,
        want="mock." + CATALOGUE[fault].side,
        got="",
        confidence="",
        component="",
        seconds=time.monotonic() - started,
        probes=0,
        note=note,
    )


def scripts_of(fault: str) -> list[Path]:
    """The scripts that show a fault."""
    return sorted(SCRIPTS.glob(f"{fault}__*.py"))


def table(rows: Sequence[Row]) -> str:
    """The rows as text, and the counts."""
    lines = [
        f"{row.grade:12s} {row.fault:28s} {row.script.partition('__')[2]:20s} {row.got or '-':16s} "
        f"{row.confidence:12s} {row.component:32s} {row.probes:3d} probes {row.seconds:6.0f} s"
        for row in rows
    ]
    counts = Counter(row.grade for row in rows)
    named = {row.fault for row in rows if row.grade == "right"} - {
        row.fault for row in rows if row.grade == "wrong"
    }
    lines.append(
        ", ".join(f"{count} {grade}" for grade, count in counts.most_common())
        + f"; {len(named)} of {len({row.fault for row in rows})} faults named right and never wrong"
    )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="all of the catalogue's unless named")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to probe")
    parser.add_argument("--quick", action="store_true", help="the layer only, no kernel")
    parser.add_argument("--first", action="store_true", help="one script for each fault")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one bisection")
    parser.add_argument("--output", type=Path, help="also write the rows as JSON")
    given = parser.parse_args(words)
    unknown = set(given.faults) - set(CATALOGUE)
    if unknown:
        parser.error(f"no fault is called {min(unknown)}; there are {', '.join(CATALOGUE)}")
    rows: list[Row] = []
    missing = []
    for fault in given.faults or CATALOGUE:
        scripts = scripts_of(fault)
        if not scripts:
            missing.append(fault)
        for script in scripts[: 1 if given.first else None]:
            row = bisect(script, fault, given.python, quick=given.quick, timeout_s=given.timeout)
            rows.append(row)
            sys.stderr.write(f"{row.grade}: {row.script} -> {row.got or '-'} {row.confidence}\n")
            if given.output is not None:
                given.output.write_text(json.dumps([r.to_json() for r in rows], indent=1) + "\n", "utf-8")
    sys.stdout.write(table(rows) + "\n")
    if missing:
        sys.stdout.write("no script shows: " + ", ".join(missing) + "\n")
    wrong = [row for row in rows if row.grade == "wrong" and row.confidence == "proven"]
    return int(bool(wrong or missing))


if __name__ == "__main__":
    sys.exit(main())
