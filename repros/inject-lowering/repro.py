"""A wrong lowering: asinh is lowered as if it were sinh."""
import torch
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
lowerings[aten.asinh.default] = lowerings[aten.sinh.default]


def fn(t):
    return torch.asinh(t) + 1


t = torch.linspace(0.5, 2, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
