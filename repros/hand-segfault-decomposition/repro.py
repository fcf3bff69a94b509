"""A decomposition that crashes natively while it is traced: the process dies of SIGSEGV, only when compiled."""
import ctypes

import torch
from torch._inductor.decomposition import decompositions


def crashing(t):
    ctypes.string_at(0)
    return t


decompositions[torch.ops.aten.sinh.default] = crashing


def fn(t):
    return torch.sinh(t) + 1


t = torch.ones(4)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
