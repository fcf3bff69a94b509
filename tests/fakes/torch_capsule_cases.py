"""Run by an interpreter that has torch: calls of graphs under a recording, without a compiler; prints JSON.

``python torch_capsule_cases.py CHILD FOLDER``. A case is a graph, what stands for its compiled code, and
how it is called. What is told of it: the recording's summary, what the capsules say, and what the script saw.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch

CHILD, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
SPEC = importlib.util.spec_from_file_location(
    "accel_lab_child", CHILD / "__init__.py", submodule_search_locations=[str(CHILD)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sys.modules["accel_lab_child"])
recordings = importlib.import_module("accel_lab_child.capsule.recording")


def graph_of(function: Any) -> Any:
    return torch.fx.symbolic_trace(function)


def affine(x: Any, w: Any) -> Any:
    return (torch.relu(x @ w),)


def counted(x: Any, total: Any) -> Any:
    total.add_(x.sum())
    return (x * 2,)


def dropped(x: Any) -> Any:
    return (torch.nn.functional.dropout(x, 0.5, True),)


class ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 1.5


def gate(x: Any, w: Any) -> Any:
    return (torch.relu(x * w - 1.0),)


def rounded_gate(x: Any, w: Any) -> Any:
    """The sign before the relu goes the other way by one rounding: its gradient is another one, by right."""
    return (torch.relu(x * w - 1.0 + 1e-7),)


def at_the_edge(call: Any) -> Any:
    x, w = torch.full((64,), 0.5), torch.full((64,), 2.0).requires_grad_()
    (out,) = call(x, w)
    out.sum().backward()
    return w.grad.tolist()


def run(name: str, function: Any, compiled: Any, calls: Any, **sampling: Any) -> dict[str, Any]:
    """The graph called once for each of ``calls``, which get the call and its turn."""
    sampling = {"every": 0, "first": 1, "hang_s": 0.0, **sampling}
    recording = recordings.Recording(str(FOLDER / name), recordings.Sampling(**sampling))
    gm = graph_of(function)
    call = recording.compiled(gm, [], lambda gm, inputs: compiled, {})
    seen = [made(call) for made in calls]
    recording.finish_backward()
    summary = recording.summary()
    capsules = [json.loads((Path(path) / "capsule.json").read_text()) for path in summary["capsules"]]
    return {"summary": summary, "capsules": capsules, "seen": seen}


def train(call: Any) -> Any:
    w = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    x = torch.linspace(-2, 3, 8).reshape(4, 2)
    (out,) = call(x, w)
    out.sum().backward()
    found = w.grad.tolist()
    w.grad.mul_(2)  # as an all-reduce does, in place
    return found


def infer(call: Any) -> Any:
    with torch.no_grad():
        (out,) = call(torch.linspace(-2, 3, 8).reshape(4, 2), torch.ones(2, 3))
    return out.tolist()


def count(call: Any) -> Any:
    total = torch.zeros(())
    with torch.no_grad():
        call(torch.ones(4), total)
    return float(total)


def draw(call: Any) -> Any:
    torch.manual_seed(3)
    with torch.no_grad():
        call(torch.ones(100))
    return torch.rand(2).tolist()


def refuse(call: Any) -> Any:
    try:
        infer(call)
    except KeyError as error:
        return repr(error)
    return "nothing was raised"


def raising(*_: Any) -> Any:
    raise KeyError("a kernel is missing")


def nearly(x: Any, w: Any) -> Any:
    """Another order of the same sum: other roundings, no fault."""
    return (torch.relu(x.flip(1) @ w.flip(0)),)


def wrong_from(turn: int) -> Any:
    turns = iter(range(1, 1000))
    return lambda x, w: (affine(x, w)[0] + (1.0 if next(turns) >= turn else 0.0),)


CASES = {
    "right": lambda: run("right", affine, affine, [train, infer]),
    "roundings": lambda: run("roundings", affine, nearly, [train, infer]),
    "other_side": lambda: run("other_side", gate, rounded_gate, [at_the_edge]),
    "wrong_output": lambda: run("wrong_output", affine, wrong_from(1), [infer]),
    "wrong_gradient": lambda: run(
        "wrong_gradient", affine, lambda x, w: affine(x, ScaledGradient.apply(w)), [train]
    ),
    "wrong_input": lambda: run("wrong_input", counted, lambda x, total: (x * 2,), [count]),
    "right_input": lambda: run("right_input", counted, counted, [count]),
    "random": lambda: run("random", dropped, lambda x: (x * 0,), [draw]),
    "undisturbed": lambda: run("undisturbed", lambda x: (x * 2,), lambda x: (x * 2,), [draw]),
    "raises": lambda: run("raises", affine, raising, [refuse]),
    "too_large": lambda: run("too_large", affine, wrong_from(1), [infer], memory_mb=0),
    "sampled": lambda: run("sampled", affine, wrong_from(6), [infer] * 12, first=1, every=4),
    "one_is_kept": lambda: run("one_is_kept", affine, wrong_from(1), [infer] * 4, first=4),
}
print(json.dumps({name: case() for name, case in CASES.items()}))
