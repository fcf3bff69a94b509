"""Processor time of one of the three models, uncompiled and on the mock accelerator, and where it goes.

    python benchmarks/case_studies/time_model.py bert|resnet|ssm [base|small] [train]

One thread, and processor seconds instead of the clock: what else the machine does matters little.
"""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from accel_lab import mock_backend
from accel_lab.mock.runtime.run_statistics import collected

RUNS = 3

words = sys.argv[1:] or ["bert"]
workload = importlib.import_module(f"accel_lab.workloads.{words[0]}")
size, train = "small" if "small" in words else "base", "train" in words
torch.set_num_threads(1)
torch.manual_seed(0)
model = workload.make(size).train(train)
inputs, targets = workload.batch(size, torch.Generator().manual_seed(0))


def step(run: Callable[..., Any]) -> tuple[float, torch.Tensor]:
    """Processor seconds of one inference or training step, and what came of it."""
    model.zero_grad()
    start = time.process_time()
    if train:
        out = workload.loss(run(*inputs), targets)
        out.backward()
    else:
        with torch.no_grad():
            out = run(*inputs)
    seconds = time.process_time() - start
    return seconds, getattr(out, "last_hidden_state", out).detach()


def median(run: Callable[..., Any]) -> float:
    """The median of some steps."""
    return statistics.median(step(run)[0] for _ in range(RUNS))


state = {name: value.clone() for name, value in model.state_dict().items()}
_, want = step(model)
eager = median(model)
model.load_state_dict(state)
torch._dynamo.reset()
compiled = torch.compile(model, backend=mock_backend)
first, got = step(compiled)
counts = collected()
before = dict(counts.seconds)
mock = median(compiled)
parts = {name: (value - before.get(name, 0.0)) / RUNS for name, value in counts.seconds.items()}
told = counts.to_json()
told.pop("violations", None)
answer = {
    "model": words[0],
    "size": size,
    "train": train,
    "torch": torch.__version__,
    "parameters": sum(p.numel() for p in model.parameters()),
    "eager_cpu_s": eager,
    "mock_cpu_s": mock,
    "ratio": mock / eager,
    "first_cpu_s": first,
    "difference": (got - want).abs().max().item(),
    "share": {name: round(value / sum(parts.values()), 3) for name, value in sorted(parts.items())},
    "statistics": told,
}
print(json.dumps(answer, indent=1, default=str))
