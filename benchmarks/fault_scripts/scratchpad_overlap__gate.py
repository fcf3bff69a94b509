"""A gate: two functions of one value, multiplied."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    y = x + 1
    return torch.sigmoid(y) * torch.tanh(y)


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(16, 64)))
