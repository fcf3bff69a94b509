"""Small halves are made larger again."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return x * 16384


torch.manual_seed(0)
print(torch.compile(f)((torch.rand(4, 64) * 5e-5).half()))
