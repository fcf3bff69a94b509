"""A wrong float32 lowering behind bfloat16 layers: log1p is 0.1 % too large, less than bfloat16 rounds."""
import torch
from torch._inductor import lowering

log1p = lowering.lowerings[torch.ops.aten.log1p.default]
mul = lowering.lowerings[torch.ops.aten.mul.Tensor]
lowering.lowerings[torch.ops.aten.log1p.default] = lambda t: mul(log1p(t), 1.001)

torch.manual_seed(2)
first, second = torch.nn.Linear(32, 64), torch.nn.Linear(64, 16)


@torch.compile
def score(rows):
    with torch.autocast("cpu", torch.bfloat16):
        hidden = second(torch.relu(first(rows)))
    return torch.log1p(hidden.float().square()).mean(-1)


with torch.no_grad():
    print("score", score(torch.randn(20, 32))[:4].tolist())
