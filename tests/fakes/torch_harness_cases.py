"""Run by the interpreter that has torch: prints what the harness says of models with known differences."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bisect"))

import torch

from accel_lab.numerics.comparison import compare_tensors
from accel_lab.workloads.harness import KernelDiffHarness

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Data:
    value: torch.Tensor
    note: str = "text"


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(3, 3))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return torch.tanh(x @ self.weight)


def changed(change: Any) -> Any:
    """A backend that returns something else than the graph does."""

    def backend(gm: Any, example: Any) -> Any:
        return lambda *args: change(gm(*args))

    return backend


def said(model: Any, *inputs: Any, test: Any = "aot_eager", **options: Any) -> dict[str, Any]:
    torch._dynamo.reset()
    result = KernelDiffHarness(model=model, inputs=inputs, test_backend=test, **options).run()
    rows = [
        {"name": row.name, "same": row.comparison.same, "reason": row.comparison.reason, "errors": row.errors}
        for row in result.rows
    ]
    return {"same": result.same, "rows": rows}


def instead(wrong: Any) -> Any:
    """A function that returns ``wrong``'s result where it is compiled, and x's where it is not."""

    def run(x: torch.Tensor) -> Any:
        right, other = wrong(x)
        return other if torch.compiler.is_compiling() else right

    return run


def scaled_gradient(x: torch.Tensor) -> torch.Tensor:
    return x * 1.01 - (x * 0.01).detach() if torch.compiler.is_compiling() else x * 1.0


class WrongGradient(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ scaled_gradient(self.weight))


class WrongBuffer(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 2 if torch.compiler.is_compiling() else 1
        return x @ self.weight


def nested(x: torch.Tensor) -> Any:
    y = x.sin()
    return {"loss": y.mean(), "parts": [y, Pair(y + 1, None)], "label": 3, "data": Data(y * 2)}


@dataclasses.dataclass(slots=True)
class Slotted:
    value: Any


def returns_nothing() -> dict[str, Any]:
    return {}


def refused(model: Any, *inputs: Any, **options: Any) -> str:
    """The line that a comparison which cannot be made ends in."""
    try:
        said(model, *inputs, **options)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refused_tensor(tensor: torch.Tensor) -> str:
    try:
        compare_tensors(tensor, tensor)
    except TypeError as error:
        return f"TypeError: {error}"
    return ""


def against_float64(x: torch.Tensor) -> dict[str, Any]:
    """A float32 sum that is off by its rounding, held against float64."""
    torch._dynamo.reset()
    options = {"reference_backend": "fp64", "test_backend": "aot_eager", "runs": 2}
    result = KernelDiffHarness(model=lambda t: t / 3, inputs=(x,), **options).run()
    row = result.rows[0]
    error = abs(float(torch.tensor(1.0) / 3) - 1 / 3)
    return {"same": result.same, "name": row.name, "errors": [value / error for value in row.errors]}


def state() -> dict[str, bool]:
    model, x = torch.nn.Sequential(torch.nn.Dropout(0.5), Model()), torch.randn(4, 3, requires_grad=True)
    weights, value = model[1].weight.detach().clone(), x.detach().clone()
    before = torch.get_rng_state(), random.getstate()
    said(model, x)
    return {
        "random": torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate(),
        "training": model.training,
        "weights": torch.equal(weights, model[1].weight) and float(model[1].count) == 0,
        "inputs": torch.equal(value, x),
        "grads": x.grad is None and model[1].weight.grad is None,
    }


def main() -> None:
    torch.manual_seed(1)
    x = torch.randn(4, 3)
    big = 2**53 + 1
    odd = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    found = {
        "scalar": said(lambda t: t.sum(), x),
        "empty": said(lambda t: t[:0] * 2, x),
        "nan": said(lambda t: t * 2, odd),
        "complex": said(lambda t: torch.complex(t, t) * 2, x),
        "ints": said(lambda t: t + 1, torch.tensor([big])),
        "float64": said(lambda t: t * 2, x.double()),
        "nested": said(nested, x),
        "dropout": said(torch.nn.Sequential(Model(), torch.nn.Dropout(0.5)), x),
        "batch_norm": said(torch.nn.Sequential(torch.nn.BatchNorm1d(3), Model()), x),
        "wrong_value": said(instead(lambda t: (t, t * 1.001)), x),
        "wrong_imaginary": said(instead(lambda t: (torch.complex(t, t), torch.complex(t, t * 1.001))), x),
        "wrong_int64": said(instead(lambda t: (t, t - 1)), torch.tensor([big])),
        "wrong_float64": said(instead(lambda t: (t, t * (1 + 1e-9))), x.double()),
        "other_dtype": said(instead(lambda t: (t, t.double())), x),
        "other_shape": said(instead(lambda t: (t, t[:2])), x),
        "extra_output": said(instead(lambda t: ([t * 2], [t * 2, t])), x),
        "missing_output": said(instead(lambda t: ([t * 2, t], [t * 2])), x),
        "wrong_gradient": said(WrongGradient(), x),
        "wrong_buffer": said(WrongBuffer(), x),
        "other_number": said(instead(lambda t: ((t * 2, 3), (t * 2, 4))), x),
        "other_aliasing": said(instead(lambda t: (t.view(-1), t.reshape(-1).clone())), x),
        "large_value": said(instead(lambda t: (t + 1e6, (t + 1e6) * 1.001)), x),
        "nan_beside": said(instead(lambda t: (t, torch.where(t > 0, t, math.nan))), x),
        "sparse": said(lambda t: t.to_sparse(), x),
        "float8": said(lambda t: t.to(torch.float8_e4m3fn), x),
        "slotted": said(lambda t: {"s": Slotted(t + 1)}, x),
        "sparse_pair": {"said": compare_tensors(x.to_sparse(), x.to_sparse() * 2).reason},
        "other_layout": said(instead(lambda t: (t.to_sparse(), t)), x),
        "nested_input": said(lambda d: d["a"][0] * 2, {"a": [torch.ones(3, requires_grad=True)]}),
        "nothing": {"said": refused(returns_nothing)},
        "float64_tested": {"said": refused(lambda t: t, x, test="fp64")},
        "nested_tensor": {"said": refused_tensor(torch.nested.nested_tensor([x, x[:1]]))},
        "meta_tensor": {"said": refused_tensor(x.to("meta"))},
        "against_float64": against_float64(torch.ones(1)),
        "state": state(),
    }
    several = said(lambda t: t * 2, x, runs=3)["rows"]
    found["several"] = {"errors": next(row["errors"] for row in several if row["name"] == "output")}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
