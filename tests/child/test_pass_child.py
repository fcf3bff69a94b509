"""The child follows real passes, patterns and decompositions, and leaves chosen ones out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober

PATTERN = """
import torch
from torch._inductor.fx_passes.post_grad import pass_patterns
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

aten = torch.ops.aten


@register_graph_pattern(
    CallFunction(aten.neg.default, CallFunction(aten.neg.default, KeywordArg("x"))),
    pass_dict=pass_patterns[1],
)
def double_negation(match, x):
    match.replace_by_example(lambda x: x * (3 if x.shape[0] == 5 else 1), [x])


def fn(*tensors):
    return [torch.neg(torch.neg(t)) + 1 for t in tensors]


tensors = [torch.ones(n) for n in (4, 5, 6)]
print([t.sum().item() for t in torch.compile(fn)(*tensors)])
"""
DECOMPOSITION = """
import torch
from torch._inductor.decomposition import decompositions


def wrong(t):
    return torch.exp(t) + 1


decompositions[torch.ops.aten.sinh.default] = wrong
print(torch.compile(lambda t: torch.sinh(t) * 3)(torch.zeros(4)).sum().item())
"""


def ask(prober: Prober, folder: Path, text: str, rung: Rung, **switches: Any) -> Outcome:
    path = folder / "script.py"
    path.write_text(text)
    program = Program(path=str(path), sha256=str(hash(text)))
    probe = Probe(program=program, rung=rung, limits=Limits(timeout_s=120.0))
    outcome = prober.ask(replace(probe, switches=tuple(switches.items())))
    assert outcome.status is Status.OK, outcome.raised
    return outcome


def printed(outcome: Outcome) -> str:
    return (Path(outcome.folder) / "stdout.txt").read_text().strip()


def rows(outcome: Outcome, subsystem: str) -> list[dict[str, Any]]:
    return [row for row in outcome.facts["applications"] if row["subsystem"] == subsystem]


@pytest.mark.torch
def test_every_application_of_a_pattern_is_noted_and_can_be_left_out(prober: Prober, tmp_path: Path) -> None:
    plain = ask(prober, tmp_path, PATTERN, Rung.FX)
    assert printed(plain) == "[8.0, 20.0, 12.0]"
    found = [row for row in rows(plain, "patterns") if row["key"].startswith("double_negation#")]
    assert [row["key"].rsplit("#")[-1] for row in found] == ["0", "1", "2"]
    assert all(row["changed"] and row["parent"] == "post_grad_passes/pass_pattern_1#0" for row in found)
    assert found[0]["at"].endswith("script.py:9")
    assert found[0]["graph"] == {"region": 0, "graph": 0, "direction": "forward", "phase": "post-grad"}
    # The matcher goes through a graph from its end, so the middle one is the middle one either way.
    name = "double_negation#1"
    without = ask(prober, tmp_path, PATTERN, Rung.FX, off={"patterns": [name]})
    assert printed(without) == "[8.0, 10.0, 12.0]"
    assert [row.get("off", False) for row in rows(without, "patterns")] == [False, True, False]
    shown = ask(prober, tmp_path, PATTERN, Rung.FX, show_pass="patterns/" + name).facts["shown"]
    assert sum("aten.neg" in line for line in shown["before"]) == 4
    assert sum("aten.neg" in line for line in shown["after"]) == 2
    assert any("float32[5] = aten.mul.Tensor" in line for line in shown["after"])


@pytest.mark.torch
def test_a_pass_that_changed_nothing_says_so(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, PATTERN, Rung.FX)
    changed = {row["key"].rsplit("#")[0]: row["changed"] for row in rows(outcome, "post_grad_passes")}
    assert changed["pass_pattern_1"] is True
    assert changed["pass_pattern_0"] is False


@pytest.mark.torch
def test_a_decomposition_is_shown_with_what_it_became(prober: Prober, tmp_path: Path) -> None:
    key = "aten.sinh.default#0"
    plain = ask(prober, tmp_path, DECOMPOSITION, Rung.DECOMP, show_pass="decomposition/" + key)
    row = next(row for row in rows(plain, "decomposition") if row["key"] == key)
    assert (row["function"], row["added"]) == ("wrong", ["aten.exp.default", "aten.add.Tensor"])
    assert plain.facts["shown"]["before"] == ["aten.sinh.default(float32[4])"]
    assert len(plain.facts["shown"]["after"]) == 2
    assert printed(plain) == "24.0"
    without = ask(prober, tmp_path, DECOMPOSITION, Rung.DECOMP, off={"decomposition": [key]})
    assert printed(without) == "0.0"


@pytest.mark.torch
def test_each_pass_that_is_called_by_name_can_be_left_out(prober: Prober, tmp_path: Path) -> None:
    """What calls one may count what it returns, or go on with the graph that it returns."""
    plain = ask(prober, tmp_path, PATTERN, Rung.FX)
    names = [row["key"] for row in rows(plain, "pass_functions")]
    assert len(names) > 3
    without = ask(prober, tmp_path, PATTERN, Rung.FX, off={"pass_functions": names})
    assert all(row.get("off") for row in rows(without, "pass_functions") if row["key"] in names)
    assert printed(without) == "[8.0, 20.0, 12.0]"
