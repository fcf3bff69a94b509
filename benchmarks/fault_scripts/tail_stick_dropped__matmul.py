"""The inner extent ends within a stick."""

import torch
from torch import Tensor


def f(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(5, 65), torch.randn(65, 33)))
