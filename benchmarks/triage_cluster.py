"""A triage on a cluster that loses a worker, against the same triage on this machine.

    python benchmarks/triage_cluster.py --python PATH [NAME ...] [--json FILE] [-- OPTIONS]

The golden cases (twelve cheap ones unless named) are triaged here, then by a local Dask cluster of two
workers. One worker is killed (SIGKILL) while it bisects, once the first run is in the store; its nanny starts
another. Printed is what must not differ: verdicts and groups, answers that are lost, probes that were run
twice to their end, and jobs that were begun again. OPTIONS go to both triages. Exit code 1 where anything
differs, is lost or is asked twice.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from golden import ROOT, cases_named
from harness import stop_when_asked

#: Deterministic, with few runs, in several stages; two of them have one component.
DEFAULT_CASES = (
    "hand-wrapper-names",
    "hand-wrapper-type",
    "hand-custom-op-dtype",
    "hand-interpolate-unchanged-size",
    "196173-which-object-is-which",
    "hand-deque-appendleft-when-full",
    "hand-generator-argument-not-advanced",
    "inject-decomposition-raises",
    "inject-decomposition",
    "inject-missing-guard",
    "195579-addmm-bias-shape",
    "inject-post-grad-pass",
)
_LOOK_S = 1.0


def triaged(place: Path, out: Path, python: str, more: Sequence[str]) -> dict[str, Any]:
    """What ``accel-lab triage`` makes of the scripts."""
    command = [sys.executable, "-m", "accel_lab", "triage", str(place), "--python", python]
    command += ["--out", str(out), "--fresh", "--json", *more]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if ended.returncode not in (0, 1, 125):
        raise SystemExit(f"accel-lab triage ended with exit code {ended.returncode}")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def groups_of(triage: Mapping[str, Any]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Stage, component and scripts of each fault."""
    rows = [(f["stage"], f.get("component") or "", tuple(sorted(f["members"]))) for f in triage["faults"]]
    return sorted(rows)


def verdicts_of(triage: Mapping[str, Any]) -> dict[str, str]:
    """The verdict of each script."""
    return {row["script"]: row["verdict"] for row in triage["scripts"]}


def ended_twice(runs: Sequence[Path]) -> int:
    """How many probes of some runs have more than one answer in their journal."""
    twice = 0
    for run in runs:
        rows = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines() if line.strip()]
        twice += sum(n > 1 for n in Counter(r["key"] for r in rows if r.get("event") == "ended").values())
    return twice


class Killer(threading.Thread):
    """Kills the worker that has begun a job and not ended it, once one run is in the store."""

    def __init__(self, cluster: Any, store: Path) -> None:
        super().__init__(daemon=True)
        self._cluster, self._store = cluster, store
        self.done = threading.Event()
        self.killed = ""

    def run(self) -> None:
        while not self.done.is_set() and not self.killed:
            time.sleep(_LOOK_S)
            ended = {path.stem for path in (self._store / "runs").glob("*.zip")}
            marks = sorted((self._store / "begun").glob("*/*"), key=lambda path: path.name)
            going = [mark for mark in marks if mark.parent.name not in ended]
            if ended and going:
                self._kill(going[-1].read_text().strip())

    def _kill(self, address: str) -> None:
        for worker in self._cluster.workers.values():
            if worker.worker_address == address:
                time.sleep(5 * _LOOK_S)  # in the middle of it
                os.kill(worker.pid, signal.SIGKILL)
                self.killed = address
                print(f"killed the worker {address}", file=sys.stderr, flush=True)


def on_cluster(place: Path, folder: Path, python: str, more: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The triage by two workers, one of which is killed; and the address of that one."""
    import dask
    from distributed import LocalCluster

    store = folder / "store"
    # A busy machine takes long to start a killed worker again.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "30 minutes"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=str(folder / "dask"),
        ) as cluster,
    ):
        killer = Killer(cluster, store)
        killer.start()
        engine = ["--engine", f"dask:{cluster.scheduler_address}", "--store", f"file://{store}"]
        try:
            return triaged(place, folder / "cluster", python, [*engine, *more]), killer.killed
        finally:
            killer.done.set()


def main(argv: Sequence[str]) -> int:
    """Both triages, and what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help="golden cases")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to probe")
    parser.add_argument("--json", type=Path, help="write the report here")
    options = argv[argv.index("--") + 1 :] if "--" in argv else ["--minimize-for", "0"]
    given = parser.parse_args(argv[: argv.index("--")] if "--" in argv else argv)
    os.environ["PYTHONPATH"] = str(ROOT / "bisect")  # the workers' lab is this one too
    with tempfile.TemporaryDirectory(prefix="accel-lab-triage-") as name:
        folder = Path(name)
        for case in cases_named(given.names or DEFAULT_CASES):
            shutil.copytree(case.folder, folder / "scripts" / case.slug)
        here = triaged(folder / "scripts", folder / "here", given.python, options)
        there, killed = on_cluster(folder / "scripts", folder, given.python, options)
        runs = [Path(row["run"]) for row in there["scripts"] if row["run"]]
        begun = Counter(mark.parent.name for mark in (folder / "store" / "begun").glob("*/*"))
        report = {
            "schema": "accel-lab/triage-cluster/1",
            "scripts": len(here["scripts"]),
            "faults": [len(here["faults"]), len(there["faults"])],
            "same_verdicts": verdicts_of(here) == verdicts_of(there),
            "same_groups": groups_of(here) == groups_of(there),
            "lost": [row["script"] for row in there["scripts"] if row["verdict"] == "error"],
            "probes": [sum(row["probes"] for row in one["scripts"]) for one in (here, there)],
            "ended_twice": ended_twice(runs),
            "begun_again": sum(count - 1 for count in begun.values()),
            "killed": killed,
            "faults_of_the_engine": there["engine"]["faults"],
            "seconds": [here["seconds"], there["seconds"]],
        }
        for key in ("same_verdicts", "same_groups"):
            if not report[key]:
                print(groups_of(here), groups_of(there), verdicts_of(there), sep="\n", file=sys.stderr)
    text = json.dumps(report, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text, encoding="utf-8")
    good = report["same_verdicts"] and report["same_groups"] and killed
    return 0 if good and not report["lost"] and not report["ended_twice"] else 1


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
