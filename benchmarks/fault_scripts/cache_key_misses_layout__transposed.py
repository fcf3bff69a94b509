"""The same sum with a matrix of another order."""

import torch
from torch import Tensor


def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return (x + y, x + y.transpose(0, 1))


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(8, 8, 64), torch.randn(8, 8, 64)))
