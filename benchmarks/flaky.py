"""The flakiness benchmark: scripts that fail at a known rate, a culprit at a known stage, many seeds.

    python benchmarks/flaky.py --python PATH [--rates 0.9 0.7] [--seeds 20]

A wrong stage told as proven fails the benchmark; a wrong one told as likely, and "cannot tell", are counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden import Case, Grade, Score, grade
from harness import build_of, run_bisect, stop_when_asked

_HEAD = '''"""Fails {percent} % of the time under torch.compile: a fault of {stage} that fires by chance."""
import os

import torch

# The draw is the process's own: a repeat of the same probe differs, as a race would.
FIRES = int.from_bytes(os.urandom(4), "little") < {rate} * 2**32
'''

_TAIL = """

def fn(t):
    return torch.sinh(t) * torch.cos(t)


t = torch.linspace(-1, 1, {size})
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
"""

#: How each stage's fault is planted; every one of them changes sinh or cos, and only when FIRES is true.
_FAULTS: dict[str, str] = {
    "decomposition": """
from torch._inductor.decomposition import decompositions


def sinh(t):
    return (torch.exp(t) + torch.exp(-t)) / 2 if FIRES else (torch.exp(t) - torch.exp(-t)) / 2


decompositions[torch.ops.aten.sinh.default] = sinh
""",
    "fx_passes": """
import torch._inductor.config


def wrong_pass(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.cos.default):
        node.target = torch.ops.aten.sin.default if FIRES else node.target


torch._inductor.config.post_grad_custom_post_pass = wrong_pass
""",
    "lowering": """
from torch._inductor.lowering import lowerings

if FIRES:
    lowerings[torch.ops.aten.cos.default] = lowerings[torch.ops.aten.sin.default]
""",
    "aot_autograd": """
aten = torch.ops.aten


@aten.sinh.default.py_functionalize_impl
def sinh(ctx, t):
    inner = ctx.unwrap_tensors(t)
    with ctx.redispatch_to_next():
        return ctx.wrap_tensors(aten.cosh.default(inner) if FIRES else aten.sinh.default(inner))
""",
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One script: the rate at which it fails, the stage at fault, and what was answered."""

    rate: float
    seed: int
    stage: str
    score: Score
    probes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "score": self.score.to_json(), "seconds": round(self.seconds, 1)}


def stage_for(seed: int) -> str:
    """The seeds go round the stages, so that every stage is tried at every rate."""
    return list(_FAULTS)[seed % len(_FAULTS)]


def script(rate: float, seed: int) -> str:
    """The text of one flaky script. The seed picks the stage and the size; the failing is left to chance."""
    head = _HEAD.format(percent=round(rate * 100), stage=stage_for(seed), rate=rate)
    return head + _FAULTS[stage_for(seed)] + _TAIL.format(size=5 + seed)


def case_for(folder: Path, rate: float, seed: int, build: str) -> Case:
    """The golden case that the trial is graded against."""
    return Case(
        slug=f"flaky-{round(rate * 100)}-{seed}",
        folder=folder,
        title="flaky",
        symptom=f"fails {rate:.0%} of the time",
        status="fails",
        stages=(stage_for(seed),),
        fails_on=(build,),
        flaky=True,
    )


def summarise(trials: Sequence[Trial]) -> dict[str, Any]:
    """Per rate: how many were right, wrong, not told, and wrong although told as proven."""
    rows = {}
    for rate in sorted({trial.rate for trial in trials}, reverse=True):
        here = [trial for trial in trials if trial.rate == rate]
        counts = {g.value: sum(t.score.grade is g for t in here) for g in Grade}
        rows[f"{rate:g}"] = {
            "trials": len(here),
            "grades": {name: count for name, count in counts.items() if count},
            "wrong_as_proven": sum(t.score.wrong_as_proven for t in here),
            "probes": sum(t.probes for t in here),
            "seconds": round(sum(t.seconds for t in here), 1),
        }
    return rows


def exit_code(trials: Sequence[Trial]) -> int:
    """1 when any trial was wrong as proven, or gave no findings at all."""
    return 1 if any(t.score.wrong_as_proven or t.score.grade is Grade.NO_ANSWER for t in trials) else 0


def main(argv: Sequence[str]) -> int:
    """Run the trials one after another, print the counts, and fail on a wrong stage told as proven."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.9, 0.7])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one bisection")
    parser.add_argument("--json", type=Path, dest="output", help="write the trials and the summary here")
    given = parser.parse_args(argv)
    build = build_of(given.python)
    trials = []
    for rate in given.rates:
        for seed in range(given.seeds):
            with tempfile.TemporaryDirectory(prefix="accel-lab-flaky-") as name:
                (Path(name) / "repro.py").write_text(script(rate, seed), encoding="utf-8")
                case = case_for(Path(name), rate, seed, build)
                found = run_bisect(given.python, case.command, env={}, timeout_s=given.timeout)
            trial = Trial(
                rate=rate,
                seed=seed,
                stage=stage_for(seed),
                score=grade(case, build, found.findings),
                probes=int((found.findings or {}).get("probes", 0)),
                seconds=found.ended.seconds,
            )
            trials.append(trial)
            print(
                f"rate {rate:g} seed {seed} {trial.stage}: {trial.score.grade} ({trial.score.answer} "
                f"{trial.score.confidence}), {trial.probes} probes, {trial.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    summary = summarise(trials)
    print(json.dumps(summary, indent=1))
    if given.output is not None:
        data = {"schema": "accel-lab/flaky/1", "summary": summary, "trials": [t.to_json() for t in trials]}
        given.output.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return exit_code(trials)


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main(sys.argv[1:]))
