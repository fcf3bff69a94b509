"""The side from which zero is approached decides the sign; the second call passes -0.0."""
import torch


def towards(x, side):
    return torch.copysign(x, torch.tensor(side))


f = torch.compile(towards)
x = torch.tensor([1.0, 2.0])
above = f(x, 0.0)
below = f(x, -0.0)
assert (above > 0).all() and (below < 0).all(), (above.tolist(), below.tolist())
