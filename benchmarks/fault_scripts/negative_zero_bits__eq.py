"""Zeros of both signs."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return x == 0


torch.manual_seed(0)
print(torch.compile(f)(torch.tensor([0.0, -0.0, 1.0, -1.0] * 20)))
