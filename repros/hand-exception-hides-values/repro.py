"""A region whose compiler error the script catches and works around, then wrong numbers from another one.

What makes the script fail is the second fault (a lowering); the first (a decomposition that raises) is
caught by the script's own handler and changes nothing.
"""
import torch
from torch._inductor.decomposition import decompositions
from torch._inductor.lowering import lowerings

aten = torch.ops.aten


def raising(t):
    raise IndexError("no sinh today")


decompositions[aten.sinh.default] = raising
lowerings[aten.asinh.default] = lowerings[aten.sin.default]


def first(t):
    return torch.sinh(t) * 3


def second(t):
    return torch.asinh(t) + 1


t = torch.linspace(0.5, 2, 8)
try:
    out = torch.compile(first)(t)
except Exception as error:
    print("falling back:", type(error).__name__)
    out = first(t)
torch.testing.assert_close(out, first(t))
torch.testing.assert_close(torch.compile(second)(t), second(t))
