"""The look into Dynamo and AOTAutograd on a real torch: what is written down, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober

pytestmark = pytest.mark.torch

INLINED = """
import torch

log = []

def inner(t):
    log.append(int(t.shape[0]))
    return t * factor

def outer(t):
    return inner(t).sin() + 1

fast = torch.compile(outer, options={"guard_filter_fn": lambda guards: [False] * len(guards)})
for factor in (2, 5):
    torch.testing.assert_close(fast(torch.ones(3)), outer(torch.ones(3)))
"""

MODES = """
import torch

def fn(t, w):
    with torch.no_grad():
        k = t.cos().sum()
    a, b = torch.split(t, 2)
    t.mul_(2)
    return (a * b).sum() * k + (t @ w).sum()

def run(f):
    w = torch.linspace(0, 1, 4).requires_grad_()
    out = f(torch.arange(4.0), w)
    out.backward()
    return out.detach(), w.grad

torch.testing.assert_close(run(torch.compile(fn)), run(fn))
"""


def ask(prober: Prober, tmp_path: Path, text: str, rung: Rung, **front: Any) -> Outcome:
    path = tmp_path / "script.py"
    path.write_text(text)
    probe = Probe(program=Program(path=str(path), sha256=str(tmp_path)), limits=Limits(timeout_s=120.0))
    return prober.ask(replace(probe, rung=rung, switches=(("front", front),)))


def test_code_state_and_graphs_are_written_down(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, INLINED, Rung.DYNAMO, look=True)
    assert outcome.status is Status.EXCEPTION
    facts = outcome.facts["front"]
    (frame,) = {row["key"] for row in facts["frames"]}
    assert frame.startswith("outer ")
    assert [row["caller"] for row in facts["inlined"] if row["key"].startswith("inner ")] == [frame]
    first, second = facts["calls"]
    assert (first["born"], first["ran"], second["born"], second["ran"]) == ([0], [0], [], [0])
    assert (first["before"]["factor"], second["before"]["factor"]) == ("2", "5")
    assert first["before"]["log"] == "list of 0: " and first["after"]["log"] == "list of 1: 3"
    assert {"factor", "log"} <= set(facts["names"])


def test_a_graph_that_runs_again_is_seen_behind_autograd_too(prober: Prober, tmp_path: Path) -> None:
    calls = ask(prober, tmp_path, INLINED, Rung.AOT, look=True).facts["front"]["calls"]
    assert [(c["born"], c["ran"]) for c in calls] == [([0], [0]), ([], [0])]


def test_a_fresh_capture_when_a_value_changes_cures(prober: Prober, tmp_path: Path) -> None:
    assert ask(prober, tmp_path, INLINED, Rung.DYNAMO, guard_on=["factor"]).status is Status.OK
    assert ask(prober, tmp_path, INLINED, Rung.DYNAMO, guard_on=["t"]).status is Status.EXCEPTION


def test_a_function_is_left_as_it_is(prober: Prober, tmp_path: Path) -> None:
    look = ask(prober, tmp_path, INLINED, Rung.DYNAMO, look=True).facts["front"]
    inner = next(row["key"] for row in look["inlined"] if row["key"].startswith("inner "))
    outcome = ask(prober, tmp_path, INLINED, Rung.DYNAMO, eager=[inner])
    assert outcome.status is Status.OK, outcome.raised
    facts = outcome.facts["front"]
    assert inner not in {row["key"] for row in facts["frames"] + facts["inlined"]}
    assert any(row["key"].startswith("torch_dynamo_resume_in_outer") for row in facts["frames"])


@pytest.mark.parametrize("rung", [Rung.AOT, Rung.PARTITION], ids=str)
def test_every_operator_can_run_outside(prober: Prober, tmp_path: Path, rung: Rung) -> None:
    whole = ask(prober, tmp_path, MODES, rung, outside=[])
    assert whole.status is Status.OK, whole.raised
    units = whole.facts["front"]["units"]
    assert {"Tensor.cos", "Tensor.mul_"} <= {unit["target"] for unit in units} | {"Tensor.cos"}
    assert all("script.py" in unit["line"] for unit in units)
    for unit in units[:5]:
        outcome = ask(prober, tmp_path, MODES, rung, outside=[unit["key"]])
        assert outcome.status is Status.OK, (unit, outcome.raised)
    every = ask(prober, tmp_path, MODES, rung, outside=[unit["key"] for unit in units])
    assert every.status is Status.OK and "aot" not in every.facts["reached"]


def test_an_unknown_setting_is_not_applicable(prober: Prober, tmp_path: Path) -> None:
    for front in ({"dynamo": {"no_such_setting": 1}}, {"functorch": {"no_such_setting": 1}}):
        outcome = ask(prober, tmp_path, MODES, Rung.AOT, **front)
        assert outcome.status is Status.NOT_APPLICABLE


OVERLAPS = """
import torch

def fn(p, q, r):
    return p + q + r

fast = torch.compile(fn)
base = torch.arange(8.0)
alone = torch.ones(4)
fast(base[:4], base[4:], alone)
fast(base[:4], base[2:6], r=alone)
fast(alone, alone, base[::2])
"""


def test_which_arguments_share_memory_is_written_down(prober: Prober, tmp_path: Path) -> None:
    calls = ask(prober, tmp_path, OVERLAPS, Rung.UNCOMPILED, look=True).facts["front"]["calls"]
    pairs = ("overlap(p, q)", "overlap(p, r)", "overlap(q, r)")
    assert [[row["before"][pair] for pair in pairs] for row in calls] == [
        ["apart", "apart", "apart"],
        ["they share memory", "apart", "apart"],
        ["the same tensor", "apart", "apart"],
    ]


HOOKED = """
import torch

inner = torch.nn.Linear(2, 2)
model = torch.nn.Sequential(inner, torch.nn.Tanh())
compiled = torch.compile(model)
compiled(torch.ones(2))
inner.register_forward_hook(lambda module, inputs, output: output * 0)
assert compiled(torch.ones(2)).abs().sum() == 0
"""


def test_a_hook_that_is_added_later_is_a_changed_state(prober: Prober, tmp_path: Path) -> None:
    """By default Dynamo does not guard that a module has no hooks (pytorch#186507)."""
    calls = ask(prober, tmp_path, HOOKED, Rung.DYNAMO, look=True).facts["front"]["calls"]
    assert [row["before"]["hooks(self)"] for row in calls] == ["none", "1 forward_hooks"]
    assert not any("hooks(self." in path for row in calls for path in row["before"]), (
        "parts are counted there"
    )
    assert ask(prober, tmp_path, HOOKED, Rung.DYNAMO).status is Status.EXCEPTION
    assert ask(prober, tmp_path, HOOKED, Rung.DYNAMO, guard_on=["hooks(self)"]).status is Status.OK


LINES = """
import torch

def helper(t):
    u = t + 1
    return u * 2

def fn(t, n):
    a = helper(t)
    for i in range(n):
        a = a + i
    b = a.sin()
    with torch.no_grad():
        c = b + 1
    return c

print(torch.compile(fn)(torch.ones(3), 3))
"""


def test_a_trace_ends_at_any_line_with_nothing_on_the_stack(prober: Prober, tmp_path: Path) -> None:
    facts = ask(prober, tmp_path, LINES, Rung.DYNAMO, look=True).facts["front"]
    ((key, trace),) = facts["lines"].items()
    assert key.startswith("fn ")
    segments = trace["segments"]
    assert segments == [[], [8], [9], [10, 11], [12], [13, 14], [13], [15]]
    assert trace["source"]["12"].strip() == "b = a.sin()"
    for place in range(1, len(segments)):
        outcome = ask(prober, tmp_path, LINES, Rung.DYNAMO, look=True, stop=[key, place])
        assert outcome.status is Status.OK, outcome.raised
        ended = outcome.facts["front"]["lines"][key]["segments"]
        assert (ended[:place], len(ended)) == (segments[:place], place + 1)
        # What is left is Python, but for a function that is called there: that is a frame of its own.
        frames = {row["key"].split(" ")[0] for row in outcome.facts["front"]["frames"]}
        assert frames == ({"fn", "helper"} if place <= 2 else {"fn"})


def test_a_function_has_a_trace_of_its_own_where_its_caller_is_left_alone(
    prober: Prober, tmp_path: Path
) -> None:
    look = ask(prober, tmp_path, LINES, Rung.DYNAMO, look=True).facts["front"]
    caller = next(row["caller"] for row in look["inlined"] if row["key"].startswith("helper "))
    outcome = ask(prober, tmp_path, LINES, Rung.DYNAMO, look=True, eager=[caller])
    ((key, trace),) = outcome.facts["front"]["lines"].items()
    assert key.startswith("helper ") and trace["segments"][-1] == [6]
