"""A script that passes but is compiled again and again is told so, and one that is not is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.findings import Findings, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.execution.prober import Prober
from accel_lab.reporting.words.summary import summarise


def said(compiles: Any) -> str:
    outcome = Outcome(status=Status.OK, exit_code=0, facts={"regions": [{"id": 0}], "compiles": compiles})
    step = Step(rung=Rung.KERNEL, verdict=Verdict.GOOD, outcome=outcome)
    return summarise(Findings(program=Program(path="/x/s.py"), verdict="passes", baseline=[step]))


def again(times: int, *, hit: bool = False) -> dict[str, Any]:
    return {"code": "f /x/s.py:3", "times": times, "limit_hit": hit, "guards": ["self.seen == 0", "b"]}


BREAK = {
    "file": "/x/s.py",
    "line": 7,
    "function": "f",
    "reason": "Unsupported Tensor.item() call",
    "times": 4,
}


def test_what_makes_it_slow_is_told() -> None:
    told = said({"again": [again(7, hit=True)], "breaks": [BREAK, {**BREAK, "reason": "print"}], "limit": 8})
    assert (
        "compiled code again: f (s.py:3) 7 times (the guard that failed first: self.seen == 0). "
        "The limit of 8 was reached, and from then on f (s.py:3) runs uncompiled. "
        "The graph breaks at 1 place: s.py:7 (Unsupported Tensor.item() call). "
        "To look for a release that does better: --versions with --metric recompiles or --metric "
        "graph_breaks."
    ) in told


@pytest.mark.parametrize(
    "compiles",
    [None, [], {"again": [again(2)], "breaks": [], "limit": 8}, {"again": 3, "breaks": [4]}, {"again": [5]}],
)
def test_what_is_usual_or_strange_is_not_told(compiles: Any) -> None:
    assert said(compiles).endswith("compiled regions return.")


SCRIPT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        return x * self.seen

net = torch.compile(Net(), backend="eager")

@torch.compile(backend="eager")
def g(x):
    y = x + 1
    print("mean", y.mean())
    return y * 2

for n in range(12):
    net(torch.ones(4))
g(torch.ones(3))
"""


@pytest.mark.torch
def test_the_child_counts_what_dynamo_wrote_down(prober: Prober, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    program = Program(path=str(path), sha256=str(tmp_path))
    facts = prober.ask(Probe(program=program, limits=Limits(timeout_s=200.0))).facts["compiles"]
    (row,) = facts["again"]
    assert row["code"].startswith("forward ") and row["limit_hit"] is True
    assert (row["times"], facts["limit"], row["guards"][0]) == (7, 8, "self.seen == 0")
    (broken,) = facts["breaks"]
    assert (broken["line"], broken["function"], broken["times"]) == (18, "g", 1)
