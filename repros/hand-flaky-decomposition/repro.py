"""Fails about seven times in ten, only when compiled: a decomposition that is wrong now and then."""
import os

import torch
from torch._inductor.decomposition import decompositions

WRONG = os.urandom(1)[0] < 179


def sinh(t):
    value = (torch.exp(t) - torch.exp(-t)) / 2
    return value + 1 if WRONG else value


decompositions[torch.ops.aten.sinh.default] = sinh


def fn(t):
    return torch.sinh(t) * 3


t = torch.linspace(-1, 1, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
