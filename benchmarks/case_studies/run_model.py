"""One of the lab's three models under torch.compile, for `accel-lab check` and `accel-lab bisect`.

    accel-lab check benchmarks/case_studies/run_model.py bert|resnet|ssm [base|small] [train] [bfloat16]

The model, its input and its loss are those of `accel-lab bench`.
"""

import importlib.util
import sys
from pathlib import Path

import torch

words = sys.argv[1:] or ["bert"]
path = Path(__file__).resolve().parents[2] / "bisect" / "accel_lab" / "workloads" / f"{words[0]}.py"
spec = importlib.util.spec_from_file_location("workload", path)
assert spec is not None and spec.loader is not None
workload = importlib.util.module_from_spec(spec)
spec.loader.exec_module(workload)

size = "small" if "small" in words else "base"
torch.manual_seed(0)
model = workload.make(size).train("train" in words)
inputs, targets = workload.batch(size, torch.Generator().manual_seed(0))
if "bfloat16" in words:
    model = model.bfloat16()
    inputs = tuple(x.bfloat16() if x.is_floating_point() else x for x in inputs)
compiled = torch.compile(model)
if "train" in words:
    loss = workload.loss(compiled(*inputs), targets)
    loss.backward()
    print(loss.item())
else:
    with torch.no_grad():
        out = compiled(*inputs)
    print(getattr(out, "last_hidden_state", out).float().abs().mean().item())
