"""A wrong entry of Inductor's decomposition table."""
import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.sinh.default] = lambda t: (torch.exp(t) + torch.exp(-t)) / 2


def fn(t):
    return torch.sinh(t) * 3


t = torch.linspace(-1, 1, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
