"""x.float() of a float tensor is the tensor itself; it is given another dimension in place."""
import torch


def widen(x):
    same = x.float()
    same.data.add_(2)
    same.unsqueeze_(0)
    return same * 1


x = torch.zeros(3)
got = torch.compile(widen, backend="aot_eager")(x)
assert got.tolist() == [[2.0, 2.0, 2.0]], got
assert x.shape == (1, 3), x.shape
