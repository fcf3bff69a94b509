"""A ladder that goes bad, good, bad: a wrong decomposition is repaired by a pass, then a lowering is wrong.

Without the wrong lowering the script passes: that is the culprit of the whole compiler.
"""
import torch
import torch._inductor.config
from torch._inductor.decomposition import decompositions
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
decompositions[aten.sinh.default] = lambda t: torch.cosh(t)
lowerings[aten.sinh.default] = lowerings[aten.sin.default]


def repairing_pass(graph):
    for node in graph.find_nodes(op="call_function", target=aten.cosh.default):
        node.target = aten.sinh.default


torch._inductor.config.post_grad_custom_post_pass = repairing_pass


def fn(t):
    return torch.sinh(t) * 3


t = torch.linspace(0.5, 2, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
