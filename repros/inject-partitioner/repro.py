"""The min-cut partitioner's last step drops the sign from the backward graph."""
import torch
import torch._functorch.partitioners as partitioners

real_step = partitioners.reordering_to_mimic_autograd_engine


def wrong_step(module):
    module = real_step(module)
    for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.neg.default):
        node.replace_all_uses_with(node.args[0])
    module.recompile()
    return module


partitioners.reordering_to_mimic_autograd_engine = wrong_step


def grad(f):
    t = torch.linspace(0.5, 1, 8, requires_grad=True)
    f(t).sum().backward()
    return t.grad


def fn(t):
    return torch.cos(t) * 3


torch.testing.assert_close(grad(torch.compile(fn)), grad(fn))
