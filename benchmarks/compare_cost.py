"""What comparing two large tensors costs: ``compare_tensors`` beside ``torch.testing.assert_close``.

    python benchmarks/compare_cost.py [--megabytes 240] [--runs 3]

Each comparison is made in a process of its own, on a pair of float32 tensors that agree up to rounding,
relative to each element, and to the whole. Memory is the peak of the process beyond what it held when the
pair was made; seconds are CPU seconds of all threads, so that a busy machine changes them little. The best
of the runs counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("compare_tensors", "assert_close")
_CHILD = """
import json, os, resource, sys, time, torch
from accel_lab import compare_tensors
way, megabytes = sys.argv[1], int(sys.argv[2])

def status(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) / 1e3

want = torch.randn(megabytes * 1_000_000 // 4)
got = torch.empty_like(want)
for start in range(0, want.numel(), 1 << 16):
    place = slice(start, start + (1 << 16))
    draws = torch.randn(2, want[place].numel())
    got[place] = want[place] * (1 + 2**-22 * draws[0]) + 1e-8 * draws[1]
small = torch.ones(8)
compare_tensors(small, small)
torch.testing.assert_close(small, small)
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before, began, wall = status("VmRSS"), time.process_time(), time.perf_counter()
if way == "compare_tensors":
    assert compare_tensors(got, want).same
else:
    torch.testing.assert_close(got, want)
seconds = time.process_time() - began
print(json.dumps({"mb": status("VmHWM") - before, "seconds": seconds, "wall": time.perf_counter() - wall}))
"""


def measured(way: str, megabytes: int, runs: int) -> dict[str, float]:
    """The least of each figure over some processes."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bisect")}
    command = [sys.executable, "-c", _CHILD, way, str(megabytes)]
    found = [
        json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)
        for _ in range(runs)
    ]
    return {name: min(row[name] for row in found) for name in ("mb", "seconds", "wall")}


def main() -> int:
    """Print both; exit code 1 if ``compare_tensors`` takes 100 MB or more, or is not the faster."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=240)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    found = {way: measured(way, given.megabytes, given.runs) for way in WAYS}
    for way, row in found.items():
        print(f"{way:16s} {row['seconds']:7.2f} CPU s {row['wall']:7.2f} s {row['mb']:8.0f} MB more")
    ours, torchs = (found[way] for way in WAYS)
    return int(ours["mb"] >= 100 or ours["seconds"] >= torchs["seconds"])


if __name__ == "__main__":
    raise SystemExit(main())
