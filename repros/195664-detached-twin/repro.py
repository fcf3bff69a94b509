# pytorch#195664: a result and its detached twin become one tensor, and neither requires a gradient.
import torch


def twins(t):
    root = t.cos()
    return root * 1.0, root.detach()


t = torch.arange(3.0, requires_grad=True)
want = [out.requires_grad for out in twins(t)]
assert [out.requires_grad for out in torch.compile(twins)(t)] == want
