"""The input is the transpose of a matrix."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return x + 1


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(72, 91).t()))
