"""The mock accelerator's operators against eager and float64, on torch's own samples and on a grid of sizes.

    python benchmarks/operators.py [--ops NAME ...] [--samples N] [--dtypes NAME ...] [--backward] [--jobs N]
                                   [--speed] [--full] [--resume FILE] [--json FILE]

Runs in an interpreter that has torch. ``--ops`` takes names of ``op_db`` (``nn.functional.conv2d``), of the
grid (``grid.softmax``), or ``op_db`` or ``grid`` for all of one kind. Exit code 1 when a result is wrong, or
refused, or the lab fails, for no known reason.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bisect"))

from harness import stop_when_asked  # noqa: E402 - the path is set above
from operator_table import Cell, Report  # noqa: E402
from operator_work import Fleet  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16", "int64", "bool")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--ops", nargs="*", default=[], metavar="NAME", help="all unless named")
    made.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=DTYPES, metavar="DTYPE")
    made.add_argument("--samples", type=int, default=8, help="of each operator and dtype; 0 for all")
    made.add_argument("--grid-samples", type=int, default=0, help="of each case of the grid; 0 for all")
    made.add_argument("--backward", action="store_true", help="also the gradients of what has some")
    made.add_argument("--speed", action="store_true", help="time the grid's cases at 1024 x 1024 instead")
    made.add_argument("--jobs", type=int, default=1, help="processes side by side")
    made.add_argument("--threads", type=int, default=1, help="torch's threads in each of them")
    made.add_argument("--timeout", type=float, default=300.0, help="seconds for one operator in one dtype")
    made.add_argument("--full", action="store_true", help="a row for every operator, right ones too")
    made.add_argument(
        "--resume", type=Path, help="keep what this JSON has, but for failures, which run again"
    )
    made.add_argument("--json", type=Path, help="also write everything as JSON")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    given = parser().parse_args(words)
    stop_when_asked()
    started = time.monotonic()
    report = Report(
        settings={
            "samples": given.samples,
            "grid_samples": given.grid_samples,
            "backward": given.backward,
            "dtypes": given.dtypes,
            "mock": {name: os.environ[name] for name in sorted(os.environ) if name.startswith("MOCK_")},
        }
    )
    if given.resume is not None:
        report.cells = kept(json.loads(given.resume.read_text("utf-8")))
    with Fleet(jobs=given.jobs, threads=given.threads, timeout_s=given.timeout) as fleet:
        report.about = fleet.about
        wanted = chosen(given.ops, fleet.about["names"], speed=given.speed)
        tasks = [
            {
                "name": name,
                "dtype": dtype,
                "backward": backward,
                "limit": given.grid_samples if name.startswith("grid.") else given.samples,
                "speed": given.speed,
            }
            for name in wanted
            for backward in ((False, True) if given.backward else (False,))
            for dtype in given.dtypes
            if not (backward and (dtype in ("int64", "bool") or name.startswith("grid.")))
        ]
        done = {(cell.name, cell.dtype, cell.backward) for cell in report.cells}
        tasks = [task for task in tasks if (task["name"], task["dtype"], task["backward"]) not in done]
        try:
            for number, answer in enumerate(fleet.work(tasks)):
                cell = Cell.from_json(answer)
                report.cells.append(cell)
                if given.json is not None and number % 50 == 0:
                    _write(given.json, report, time.monotonic() - started)
                if sys.stderr.isatty() or number % 200 == 0:
                    sys.stderr.write(f"{number + 1} of {len(tasks)}: {cell.name} {cell.dtype}\n")
        finally:  # a run that is stopped can be resumed; whoever stops it may ask twice, as timeout does
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            report.seconds = time.monotonic() - started
            if given.json is not None:
                _write(given.json, report, report.seconds)
    sys.stdout.write(report.speed_text() if given.speed else report.text(full=given.full))
    return int(bool(report.unexplained()))


def chosen(words: Sequence[str], names: Sequence[str], *, speed: bool) -> list[str]:
    """The operators that the command line asks for."""
    kinds = {
        "op_db": [name for name in names if not name.startswith("grid.")],
        "grid": [name for name in names if name.startswith("grid.")],
    }
    if speed:
        names = kinds["grid"]
    if not words:
        return list(names)
    found: list[str] = []
    for word in words:
        some = kinds.get(word) or [name for name in names if name == word or name.startswith(word + ".")]
        if not some:
            raise SystemExit(f"no operator is called {word}: see torch's op_db, or the grid's cases")
        found += some
    return list(dict.fromkeys(found))


def kept(found: dict[str, Any]) -> list[Cell]:
    """The cells of an earlier run without failures that are the mock's."""
    return [cell for entry in found["cells"] if not (cell := Cell.from_json(entry)).bad]


def _write(path: Path, report: Report, seconds: float) -> None:
    report.seconds = seconds
    path.write_text(json.dumps(report.to_json(), indent=1, allow_nan=False) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
