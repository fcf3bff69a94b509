"""x + 0 turns a negative zero into a positive one, so 1 / (x + 0) is +inf."""
import torch


def inverse(x):
    return 1.0 / (x + torch.zeros(4))


got = torch.compile(inverse)(torch.tensor([-0.0, 0.0, -0.0, 2.0]))
assert got.tolist() == [float("inf")] * 3 + [0.5], got.tolist()
