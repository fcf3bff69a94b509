"""What a bisection costs: its wall time over that of one plain failing run, and the CPU seconds of --help.

    python benchmarks/overhead.py --python PATH [NAME ...]

Both are measured in the same run, cold and with caches off, and given as a ratio: absolute times
mean nothing on a shared machine. The floor is what no bisection can go below: the cold runs that
prove the premise.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden import ROOT, Case, cases_named
from harness import build_of, run_bisect, run_command, run_plain, stop_when_asked

#: Small, deterministic, one per way of failing: at compile time, wrong numbers, an exception in eager.
DEFAULT_CASES = (
    "inject-decomposition",
    "inject-post-grad-pass",
    "inject-codegen-accuracy",
    "hand-eager-error",
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One case: the plain run, the bisection, and where the bisection's time went."""

    slug: str
    plain_s: float
    bisect_s: float
    probes_s: float
    cold_s: float
    probes: int

    @property
    def ratio(self) -> float:
        """Bisection over plain run."""
        return self.bisect_s / self.plain_s

    def to_json(self) -> dict[str, Any]:
        return {
            **{k: round(v, 2) if isinstance(v, float) else v for k, v in self.__dict__.items()},
            "ratio": round(self.ratio, 2),
            "floor_ratio": round(self.cold_s / self.plain_s, 2),
            "beside_probes_s": round(self.bisect_s - self.probes_s, 2),
        }


def help_cpu_s(repeats: int = 5) -> float:
    """CPU seconds of ``accel-lab --help``, the median of a few runs with byte code in place."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bisect")}
    runs = []
    for _ in range(repeats + 1):
        ended = run_command([sys.executable, "-m", "accel_lab", "--help"], env=env, timeout_s=120)
        if ended.code != 0:
            raise SystemExit(f"accel-lab --help ended with {ended.code}: {ended.stderr.strip()[-300:]}")
        runs.append(ended.cpu_s)
    return statistics.median(runs[1:])


def cold_seconds(findings: dict[str, Any]) -> float:
    """The seconds of the baseline's runs, which are cold by definition."""
    return float(sum(step.get("seconds", 0.0) for step in findings.get("baseline", {}).get("runs", ())))


def sample(case: Case, python: str, timeout_s: float) -> Sample:
    """A plain run before and after the bisection, so that a load that drifts counts on both sides."""
    plain = [run_plain(python, case.command, env=case.env, timeout_s=timeout_s).seconds]
    found = run_bisect(python, case.command, args=case.args, env=case.env, timeout_s=timeout_s)
    plain.append(run_plain(python, case.command, env=case.env, timeout_s=timeout_s).seconds)
    findings = found.findings or {}
    return Sample(
        slug=case.slug,
        plain_s=statistics.mean(plain),
        bisect_s=found.ended.seconds,
        probes_s=float(findings.get("seconds", {}).get("probes", 0.0)),
        cold_s=cold_seconds(findings),
        probes=int(findings.get("probes", 0)),
    )


def report(build: str, help_s: float, samples: Sequence[Sample]) -> dict[str, Any]:
    """What is printed."""
    ratios = [s.ratio for s in samples]
    return {
        "schema": "accel-lab/overhead/1",
        "torch": build,
        "help_cpu_s": round(help_s, 3),
        "median_ratio": round(statistics.median(ratios), 2) if ratios else None,
        "worst_ratio": round(max(ratios), 2) if ratios else None,
        "samples": [s.to_json() for s in samples],
    }


def main(argv: Sequence[str]) -> int:
    """Measure and print; ``--max-ratio`` and ``--max-help`` turn the goals into an exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(DEFAULT_CASES))
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one bisection")
    parser.add_argument("--max-ratio", type=float, help="fail when the median ratio is above this")
    parser.add_argument("--max-help", type=float, help="fail when --help takes more CPU seconds than this")
    parser.add_argument("--json", type=Path, dest="output", help="write the report here as well")
    given = parser.parse_args(argv)
    build = build_of(given.python)
    cases = cases_named(given.names)
    samples = []
    for case in cases:
        samples.append(sample(case, given.python, given.timeout))
        print(f"{case.slug}: {samples[-1].ratio:.2f} x a plain run", file=sys.stderr, flush=True)
    result = report(build, help_cpu_s(), samples)
    text = json.dumps(result, indent=1)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n", encoding="utf-8")
    slow = given.max_ratio is not None and (result["median_ratio"] or 0) > given.max_ratio
    heavy = given.max_help is not None and result["help_cpu_s"] > given.max_help
    return 1 if slow or heavy else 0


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
