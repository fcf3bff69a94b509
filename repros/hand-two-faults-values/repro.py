"""Two independent planted faults with wrong numbers in two regions; the script exits 0 and compares nothing."""
import torch
from torch._inductor.decomposition import decompositions
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
decompositions[aten.sinh.default] = lambda t: (torch.exp(t) + torch.exp(-t)) / 2
lowerings[aten.asinh.default] = lowerings[aten.acosh.default] = lowerings[aten.sin.default]


@torch.compile
def first(t):
    return torch.sinh(t) * 3


@torch.compile
def second(t):
    return torch.asinh(t) + 1


t = torch.linspace(0.5, 2, 8)
print(first(t).sum().item(), second(t).sum().item())
