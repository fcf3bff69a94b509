"""A scale for each column."""

import torch
from torch import Tensor


def f(x: Tensor, s: Tensor) -> Tensor:
    return torch.relu(x) * s


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(3, 5, 96), torch.randn(96)))
