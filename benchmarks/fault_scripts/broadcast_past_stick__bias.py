"""A bias longer than a stick."""

import torch
from torch import Tensor


def f(x: Tensor, b: Tensor) -> Tensor:
    return x + b


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(8, 100), torch.randn(100)))
