"""Kernels of the Python dispatcher, and numbers that are as good, on a real torch."""

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

#: An operator of the script's own: its Python kernel returns a copy of what the native one returns itself.
OWN_KERNEL = """
import torch

with torch.library._scoped_library("lab_kernels", "DEF") as lib:
    lib.define("maybe_half(Tensor x, bool half) -> Tensor")
    lib.impl("maybe_half", lambda x, half: x * 0.5 if half else x * 1.0, "CompositeImplicitAutograd")
    op = torch.ops.lab_kernels.maybe_half.default

    @op.py_impl(torch._C.DispatchKey.Autograd)
    @op.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)
    def wrong(x, half):
        return x * 0.25 if half else x * 1.0

    def fn(t):
        return torch.ops.lab_kernels.maybe_half(t, True) + 1

    t = torch.ones(4)
    torch.testing.assert_close(torch.compile(fn)(t), fn(t))
"""

NAME = "lab_kernels.maybe_half.default"


def ask(prober: Prober, tmp_path: Path, text: str, rung: Rung, **switches: Any) -> Outcome:
    path = tmp_path / "script.py"
    path.write_text(text)
    probe = Probe(program=Program(path=str(path), sha256=str(tmp_path)), limits=Limits(timeout_s=240.0))
    return prober.ask(replace(probe, rung=rung, switches=tuple(switches.items())))


def test_a_python_kernel_is_listed_while_autograd_traces(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, OWN_KERNEL, Rung.AOT, python_kernels="list")
    assert outcome.status is Status.EXCEPTION
    rows = {row["op"]: row for row in outcome.facts["python_kernels"]["kernels"]}
    assert rows[NAME]["kernel"].endswith("wrong") and rows[NAME]["times"] >= 1
    assert rows[NAME]["different"] == []  # nothing was compared


def test_the_native_kernel_is_traced_when_the_python_one_is_removed(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, OWN_KERNEL, Rung.AOT, native_kernels=[NAME])
    assert outcome.status is Status.OK, outcome.raised
    removed = outcome.facts["python_kernels"]["removed"]
    assert sorted(removed[NAME]) == ["Autograd", "CompositeImplicitAutograd"]


def test_both_kernels_are_compared_on_the_real_inputs(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, OWN_KERNEL, Rung.DYNAMO, python_kernels="compare")
    assert outcome.status is Status.OK, outcome.raised  # the script goes on with what the native one returns
    (row,) = [row for row in outcome.facts["python_kernels"]["kernels"] if row["op"] == NAME]
    assert row["compared"] >= 1
    assert row["different"][0]["what"] == "output 0: values"


def test_a_kernel_that_is_not_there_cannot_be_removed(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, OWN_KERNEL, Rung.AOT, native_kernels=["aten.no_such.default"])
    assert outcome.status is Status.NOT_APPLICABLE


ALIAS = """
import torch
import torch.nn.functional as F

def fn(t):
    return F.dropout(t, 0.5, training=False)

torch.compile(fn)(torch.ones(3))
"""


def test_an_output_that_is_the_input_is_told_from_a_copy(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, ALIAS, Rung.DYNAMO, python_kernels="compare")
    (row,) = [r for r in outcome.facts["python_kernels"]["kernels"] if r["op"] == "aten.dropout.default"]
    version = tuple(int(part) for part in outcome.torch.split("+")[0].split(".")[:2])
    # pytorch#195422: mended in 2.14.
    copies = [("output 0: memory", "tensor argument 0 itself", "new memory")]
    told = [(d["what"], d["native"], d["python"]) for d in row["different"]]
    assert told == (copies if version < (2, 14) else [])


RANDOM = """
import torch

def fn(t):
    return t + torch.rand_like(t)

run = torch.compile(fn)

def seeded(f):
    torch.manual_seed(5)
    return f(torch.zeros(16)), torch.rand(2)

first, second, plain = seeded(run), seeded(run), seeded(fn)
assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1]), "one seed, two results"
assert 0 <= first[0].min() and first[0].max() < 1, "out of range"
assert torch.equal(first[0], plain[0]), "other numbers"
"""


def test_other_random_numbers_keep_what_a_seed_promises(prober: Prober, tmp_path: Path) -> None:
    assert ask(prober, tmp_path, RANDOM, Rung.UNCOMPILED).status is Status.OK
    outcome = ask(prober, tmp_path, RANDOM, Rung.UNCOMPILED, other_random=1)
    assert outcome.raised is not None and outcome.raised.message == "other numbers"


ROUNDED = """
import torch

weight = torch.linspace(-1, 1, 24, requires_grad=True)

def fn(t, w):
    t.add_(1)
    return (t * w).exp(), t

def run(f):
    weight.grad = None
    t = torch.ones(24)
    out, same = f(t, weight)
    out.sum().backward()
    return out.detach(), same, t, weight.grad

got, want = run(torch.compile(fn)), run(fn)
torch.testing.assert_close(got, want)
assert torch.equal(got[1], want[1]) and torch.equal(got[2], want[2]), "an input was rounded"
assert not torch.equal(got[3], want[3]), "the gradient is not rounded"
assert torch.equal(got[0], want[0]), "not the same bits"
"""


def test_other_roundings_leave_the_inputs_and_autograd_alone(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, tmp_path, ROUNDED, Rung.UNCOMPILED, other_rounding=1)
    assert outcome.raised is not None and outcome.raised.message == "not the same bits"


def test_the_types_that_a_graph_computes_with_are_written_down(prober: Prober, tmp_path: Path) -> None:
    text = (
        "import torch\nf = torch.compile(lambda t: (t * 2).float())\nf(torch.ones(2, dtype=torch.bfloat16))\n"
    )
    assert ask(prober, tmp_path, text, Rung.DYNAMO).facts["dtypes"] == ["bfloat16", "float32"]


#: As 2.5.1 and 2.6.0 have it: the seed that is looked up is a view, which eager code refuses.
SEED_IS_A_VIEW = """
import torch
import torch._inductor.inductor_prims
from torch._library.custom_ops import OPDEFS

OPDEFS["prims::inductor_lookup_seed"].register_kernel(None, lambda seeds, index: seeds[index])
drawn = torch.compile(lambda x: x + torch.rand_like(x))(torch.zeros(4))
assert drawn.shape == (4,)
"""


@pytest.mark.parametrize("rung", [Rung.FX, Rung.LOOPS])
def test_a_graph_that_draws_random_numbers_runs_interpreted(
    prober: Prober, tmp_path: Path, rung: Rung
) -> None:
    assert ask(prober, tmp_path, SEED_IS_A_VIEW, rung).status is Status.OK
