"""A float32 lowering behind bfloat16 layers that keeps 8 bits: its error is hidden in that of the layers."""
import torch
from torch._inductor import lowering

log1p = lowering.lowerings[torch.ops.aten.log1p.default]
mul = lowering.lowerings[torch.ops.aten.mul.Tensor]
sub = lowering.lowerings[torch.ops.aten.sub.Tensor]


def short_log1p(t):
    exact = log1p(t)
    above = mul(exact, 2.0**16 + 1)
    return sub(above, sub(above, exact))


lowering.lowerings[torch.ops.aten.log1p.default] = short_log1p

torch.manual_seed(2)
first, second = torch.nn.Linear(32, 64), torch.nn.Linear(64, 16)


@torch.compile
def score(rows):
    with torch.autocast("cpu", torch.bfloat16):
        hidden = second(torch.relu(first(rows)))
    return torch.log1p(hidden.float().square())


with torch.no_grad():
    print("score", score(torch.randn(20, 32))[0, :4].tolist())
