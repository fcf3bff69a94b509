"""A script that does not fail: forward, backward and a graph break, all right under torch.compile."""
import torch


@torch.compile
def step(t):
    out = torch.sin(t) * 2
    torch._dynamo.graph_break()
    return out.sum()


def plain(t):
    return (torch.sin(t) * 2).sum()


one = torch.linspace(0, 1, 8, requires_grad=True)
two = torch.linspace(0, 1, 8, requires_grad=True)
step(one).backward()
plain(two).backward()
torch.testing.assert_close(one.grad, two.grad)
