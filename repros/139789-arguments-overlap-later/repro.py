# pytorch#139789: captured for two separate tensors, the graph is used again for two that overlap.
import torch


def triple_and_add(p, q):
    p.mul_(3)
    return p + q


def overlapping():
    storage = torch.arange(8.0)
    return storage[:4], storage[2:6]


fast = torch.compile(triple_and_add)
fast(torch.ones(4), torch.ones(4))
torch.testing.assert_close(fast(*overlapping()), triple_and_add(*overlapping()))
