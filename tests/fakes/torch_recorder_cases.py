"""Run by an interpreter that has torch: records one run into a folder and prints what it saw of its traces.

``python torch_recorder_cases.py CHILD FOLDER VARIANT...`` writes FOLDER/VARIANT for each. The variants
compute the same by other means, or something wrong, so that a test can compare their recordings.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib.util
import itertools
import json
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

CHILD, FOLDER, VARIANTS = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
SPEC = importlib.util.spec_from_file_location(
    "accel_lab_child", CHILD / "__init__.py", submodule_search_locations=[str(CHILD)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sys.modules["accel_lab_child"])
record = importlib.import_module("accel_lab_child.record.recorder")
shadow = importlib.import_module("accel_lab_child.shadow.mode")

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Output:
    loss: Any
    name: str = "output"


@dataclasses.dataclass
class Slotted:
    __slots__ = ("loss",)
    loss: Any


class Plain(torch.Tensor):
    """A subclass that only has a name."""


def odd_values() -> dict[str, Any]:
    """Everything that a region may return and a recorder may stumble over."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(3)
    circle: list[Any] = [1]
    circle.append(circle)
    deep: Any = 7
    for _ in range(100):
        deep = [deep]
    freed = torch.zeros(8)
    freed.untyped_storage().resize_(0)
    values = {
        "nested": [torch.ones(2, 2), Pair(torch.tensor(3), None), {"key": (1.5, "text")}],
        "output": Output(torch.tensor(2.5)),
        "circle": circle,
        "deep": deep,
        "empty": {},
        "floats": [float("nan"), float("inf"), -0.0],
        "large_int": 10**30,
        "complex": 1 + 2j,
        "dtype": torch.float32,
        "object": object(),
        "generator": (i for i in range(3)),
        "set": {1},
        "bfloat16": torch.tensor([1.0, -2.5]).bfloat16(),
        "float16": torch.tensor([1.0, -2.5]).half(),
        "conj": torch.tensor([1 + 2j, 3j], dtype=torch.complex64).conj(),
        "negative": torch.tensor([1 + 2j, 3j], dtype=torch.complex64).conj().imag,
        "bools": torch.tensor([True, False]),
        "uint8": torch.tensor([255, 0], dtype=torch.uint8),
        "no_elements": torch.empty(0, 3),
        "scalar": torch.tensor(4.0),
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "offset": torch.arange(6.0)[2::2],
        "expanded": torch.ones(1, 2).expand(3, 2),
        "odd_numbers": torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]),
        "slotted": Slotted(torch.tensor(2.5)),
        # Two entries of one place, which count together, and not in the order of the indices.
        "sparse": torch.sparse_coo_tensor([[1, 0, 1], [1, 0, 1]], [1.0, 1.0, 2.0], (2, 2)),
        "compressed": torch.eye(2).to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "meta": torch.empty(3, device="meta"),
        "fake": fake,
        "nested_tensor": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "plain_subclass": torch.ones(2).as_subclass(Plain),
        "freed": freed,
        "parameter": nn.Parameter(torch.ones(2)),
    }
    if hasattr(torch, "float8_e4m3fn"):
        values["float8"] = torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn)
    return values


def odd(folder: str, variant: str = "") -> dict[str, Any]:
    """Record the odd values; tell of each trace that the recorder might leave."""
    recorder = record.Recorder(folder, 1 << 20)
    leaf = torch.ones(3, requires_grad=True)
    plain, numpy_written = torch.zeros(2), torch.zeros(2)
    values = odd_values()
    torch.manual_seed(1)
    random.seed(1)
    state, python_state = torch.get_rng_state(), random.getstate()
    seen: list[str] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    class WatchFunctions(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    result = leaf * 2
    versions = leaf._version, plain._version, result._version
    with Watch(), WatchFunctions():
        call = recorder.begin_call(0, "odd", (leaf, [plain]), {"written": numpy_written})
        during = list(seen)
        plain.add_(1)
        numpy_written.numpy()[0] = 5
        seen.clear()
        recorder.end_call(call, {"result": result, **values})
        seen.extend(during)
    told = {
        "seen": seen,
        "versions": [*versions, leaf._version, plain._version - 1, result._version],
        "graph": [result.grad_fn.name(), result.grad_fn.next_functions[0][0].name(), leaf.grad is None],
        "same_state": torch.equal(state, torch.get_rng_state()) and random.getstate() == python_state,
    }
    with torch.inference_mode():
        inference = torch.zeros(2)
        call = recorder.begin_call(1, "inference", (inference,), {})
        inference.add_(1)
        recorder.end_call(call, inference * 2)

    def mapped(row: torch.Tensor) -> torch.Tensor:
        call = recorder.begin_call(2, "mapped", (row,), {})
        recorder.end_call(call, row * 2)
        return row

    torch.func.vmap(mapped)(torch.ones(2, 3))
    call = recorder.begin_call(3, "raising", (plain,), {})
    plain.add_(1)
    recorder.raised(call, IndexError("out of range"))
    result.sum().backward()
    recorder.finish()
    told["finished_state"] = torch.equal(state, torch.get_rng_state())
    return told


def beyond_arguments(folder: str, variant: str) -> dict[str, Any]:
    """A function that reads its model from a closure, and an input that earlier operators made."""
    torch.manual_seed(3)
    recorder = record.Recorder(folder, 1 << 20)
    model, count, weight = nn.Linear(3, 2), torch.zeros(1), torch.ones(2, requires_grad=True)

    def helper(x: torch.Tensor) -> torch.Tensor:
        return model(x) * weight

    def step(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return helper(x)

    leaf = torch.randn(4, 3, requires_grad=True)
    made = leaf * 2
    call = recorder.begin_call(0, "step", (made,), {}, step)
    out = step(made)
    recorder.end_call(call, out)
    scale = 1.1 if variant == "beyond_wrong" else 1.0
    out.register_hook(lambda gradient: gradient * scale)
    out.square().sum().backward()
    if variant == "beyond_trained":
        torch.optim.SGD([*model.parameters(), weight], 0.1).step()
    recorder.finish()
    return {"hooks": made._backward_hooks is None}


class Average:
    """State of a script's own class, replaced by each call."""

    def __init__(self) -> None:
        self.mean = torch.zeros(2)


class Decoder(nn.Module):
    """A module that keeps what it saw, neither as parameters nor as buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self.last, self.before = torch.zeros(1), torch.ones(1)


def left_behind(folder: str, variant: str) -> dict[str, Any]:
    """A function that returns nothing and leaves its results in a list, a table, an object and a module."""
    recorder = record.Recorder(folder, 1 << 20)
    average, decoder, rows, table = Average(), Decoder(), [torch.zeros(1)], {}

    def step(x: torch.Tensor) -> None:
        value = x * (1.1 if variant == "left_wrong" else 1.0)
        average.mean = average.mean + value
        rows.append(value)
        table["last"] = value + 1
        table[f"made at {id(value)}"] = value + 2
        decoder.seen.append(value)
        decoder.last = value * 2

    for k in range(2):
        x = torch.full((2,), float(k + 1))
        call = recorder.begin_call(0, "step", (x,), {}, step)
        step(x)
        recorder.end_call(call, None)
    recorder.finish()
    return {}


def train(folder: str, variant: str) -> dict[str, Any]:
    """Three steps of a small model; the variants compute one thing otherwise."""
    torch.manual_seed(2)
    random.seed(2)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(2)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    scale = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if variant == "stepped" else None
    mode = shadow.ShadowMode() if variant in ("reference", "capped") else None
    cap = 200 if variant == "capped" else 1 << 20
    recorder = record.Recorder(folder, cap, shadow=mode)
    if mode:
        mode.__enter__()
    recorder.watch_module(0, model)
    running = torch.zeros(2)
    if variant == "short_grad":
        passes = itertools.count()
        model[0].weight.register_hook(lambda grad: grad.bfloat16().float() if next(passes) == 0 else grad)

    def step(x: torch.Tensor, scale: torch.Tensor, running: torch.Tensor, k: int) -> torch.Tensor:
        out = model(x) * scale
        if variant == "rounded":
            out = out * 3 / 3
        if variant == "wrong" and k == 1:
            out = out + 0.01
        if variant == "half":
            out = out.half()
        if variant == "raises" and k == 2:
            raise ValueError("step 2")
        running.add_(out.detach().float().mean(0))
        return out

    for k in range(2 if variant == "shorter" else 3):
        x = torch.randn(5, 4)
        if variant == "draws" and k == 2:
            torch.rand(1)
        call = recorder.begin_call(0, "step", (x, scale), {"running": running})
        try:
            out = step(x, scale, running, k)
        except ValueError as error:
            recorder.raised(call, error)
            continue
        recorder.end_call(call, {"out": out, "k": k})
        loss = out.float().square().mean()
        loss.backward()
        if optimizer is not None and k == 1:
            optimizer.step()
    if mode:
        mode.__exit__(None, None, None)
    if variant == "wrong_grad":
        with torch.no_grad():
            scale.grad.mul_(1.1)
    if variant == "killed":
        os._exit(3)
    recorder.finish()
    return {"fallbacks": dict(mode.fallbacks) if mode else {}}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    answers = {}
    for name in VARIANTS:
        folder = os.path.join(FOLDER, name)
        made = {"odd": odd, "beyond": beyond_arguments, "left": left_behind}.get(name.split("_")[0])
        answers[name] = train(folder, name) if made is None else made(folder, name)
    json.dump(answers, sys.stdout)
