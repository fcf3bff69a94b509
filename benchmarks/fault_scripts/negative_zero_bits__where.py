"""Zeros of both signs are replaced."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return torch.where(x != 0, x, 5.0) * 2


torch.manual_seed(0)
print(torch.compile(f)(torch.tensor([0.0, -0.0, 1.0, -1.0] * 20)))
