"""What shared clean servers save: bisections one by one, each with a server of its own, against shared ones.

    python benchmarks/shared_server.py --python PATH [NAME ...]

Each case is bisected by itself with --fresh and then with the servers of one host, in turn, so that a load
that drifts counts on both sides. Then all are bisected again with a new host, --jobs side by side, as a
triage does it. Printed are ratios within this run: scripts an hour, CPU seconds (those of a host are of all
that it started), and, for each bisection that found a server, the time until the stage was named over a plain
run, which is made right before and after it. An answer that is not the same with and without is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from golden import ROOT, Case, cases_named
from harness import build_of, run_bisect, run_plain, stop_when_asked

#: Small, deterministic, in several stages.
DEFAULT_CASES = (
    "inject-decomposition",
    "inject-post-grad-pass",
    "inject-codegen-accuracy",
    "inject-lowering",
)
#: What the log says first after the stage is named.
_NAMED = re.compile(r"^(\S+ \S+) INFO accel_lab\.search: component$", re.MULTILINE)
_LENT = "the warm server is a fork of one that is kept"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One bisection. ``stage_s`` is the time until its stage was named; None where none was."""

    slug: str
    seconds: float
    cpu_s: float
    stage_s: float | None
    answer: tuple[str, ...]
    probes: int


def bisect(case: Case, python: str, timeout_s: float, more: Sequence[str], env: dict[str, str]) -> Run:
    """Bisect a case; the process that is started counts, and what it started."""
    with tempfile.TemporaryDirectory(prefix="accel-lab-shared-") as folder:
        log = Path(folder) / "log.txt"
        began = time.time()
        options = [*case.args, "--no-verify", "--log-file", str(log), *more]
        found = run_bisect(
            python, case.command, args=options, env={**case.env, **env}, timeout_s=timeout_s, out=folder
        )
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    if found.findings is None:
        raise SystemExit(f"{case.slug}: no findings: {found.ended.stderr.strip()[-300:]}")
    if env and _LENT not in text:
        raise SystemExit(f"{case.slug}: no server was lent: {text[:3000]}")
    named = _NAMED.search(text)
    at = datetime.strptime(named[1], "%Y-%m-%d %H:%M:%S,%f").timestamp() if named else None
    return Run(
        slug=case.slug,
        seconds=found.ended.seconds,
        cpu_s=found.ended.cpu_s,
        stage_s=at - began if at is not None else None,
        answer=answer_of(found.findings),
        probes=int(found.findings.get("probes", 0)),
    )


def answer_of(findings: dict[str, Any]) -> tuple[str, ...]:
    """Verdict, stage and component: what may not depend on who shared a server with whom."""
    culprit = findings.get("culprit") or {}
    component = culprit.get("component") or {}
    return str(findings.get("verdict")), str(culprit.get("stage", "")), str(component.get("name", ""))


@contextmanager
def hosted() -> Iterator[tuple[dict[str, str], list[float]]]:
    """A host of this process, in a lab process that ends with it; its CPU seconds once it has ended."""
    from accel_lab.execution.lending.hosted import Hosted

    host, cpu = Hosted(), list[float]()
    os.environ.pop("ACCEL_LAB_SERVERS", None)
    before = os.times()
    try:
        yield host.environment(), cpu
    finally:
        host.close()
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        cpu.append(spent)


def measure(cases: Sequence[Case], python: str, timeout_s: float, jobs: int) -> dict[str, Any]:
    """All of it; the report."""
    alone: list[Run] = []
    shared: list[Run] = []
    plain: list[float] = []
    with hosted() as (env, _):
        for case in cases:
            alone.append(bisect(case, python, timeout_s, ["--fresh"], {}))
            plain.append(run_plain(python, case.command, env=case.env, timeout_s=timeout_s).seconds)
            shared.append(bisect(case, python, timeout_s, [], env))
            plain.append(run_plain(python, case.command, env=case.env, timeout_s=timeout_s).seconds)
            print(f"{case.slug}: {alone[-1]} {shared[-1]}", file=sys.stderr, flush=True)
    own_cpu = sum(run.cpu_s for run in alone)
    began = time.perf_counter()
    with hosted() as (env, spent):
        # As many probes at a time as there are bisections, as in a triage.
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            beside = list(pool.map(lambda case: bisect(case, python, timeout_s, ["--jobs", "1"], env), cases))
        beside_s = time.perf_counter() - began
    differing = sorted(
        {
            a.slug
            for runs in (shared, beside)
            for a, b in zip(alone, runs, strict=True)
            if a.answer != b.answer
        }
    )
    rows = []
    for place, (one, two) in enumerate(zip(alone, shared, strict=True)):
        before_and_after = statistics.mean(plain[2 * place : 2 * place + 2])
        rows.append(
            {
                "case": one.slug,
                "alone_s": round(one.seconds, 1),
                "shared_s": round(two.seconds, 1),
                "plain_s": round(before_and_after, 1),
                "stage_over_plain": round(two.stage_s / before_and_after, 2) if two.stage_s else None,
                "stage_over_plain_alone": round(one.stage_s / before_and_after, 2) if one.stage_s else None,
                "found_a_server": place > 0,
                "probes": [one.probes, two.probes],
            }
        )
    return {
        "schema": "accel-lab/shared-server/1",
        "cases": rows,
        "alone_cpu_s": round(own_cpu, 1),
        "side_by_side_cpu_s": round(spent[0], 1),
        "cpu_ratio": round(own_cpu / spent[0], 2),
        "scripts_an_hour_one_by_one": round(
            sum(run.seconds for run in alone) / sum(run.seconds for run in shared), 2
        ),
        "scripts_an_hour_side_by_side": round(sum(run.seconds for run in alone) / beside_s, 2),
        "jobs": jobs,
        "differing": differing,
    }


def main(argv: Sequence[str]) -> int:
    """Measure and print; exit code 1 where an answer differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(DEFAULT_CASES))
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one bisection")
    parser.add_argument("--jobs", type=int, default=2, help="bisections side by side in the last part")
    parser.add_argument("--json", type=Path, dest="output", help="write the report here as well")
    given = parser.parse_args(argv)
    build = build_of(given.python)
    cases = cases_named(given.names)
    report = {"torch": build, **measure(cases, given.python, given.timeout, given.jobs)}
    text = json.dumps(report, indent=1)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n", encoding="utf-8")
    return 1 if report["differing"] else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "bisect"))
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
