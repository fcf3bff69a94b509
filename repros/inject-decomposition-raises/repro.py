"""An entry of Inductor's decomposition table that raises while it is traced."""
import torch
from torch._inductor.decomposition import decompositions


def sinh(t):
    raise IndexError("no sinh today")


decompositions[torch.ops.aten.sinh.default] = sinh


def fn(t):
    return torch.sinh(t) * 3


print(torch.compile(fn)(torch.linspace(-1, 1, 8)))
