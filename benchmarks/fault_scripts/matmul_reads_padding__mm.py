"""An inner extent that ends within a stick."""

import torch
from torch import Tensor


def f(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(8, 70), torch.randn(70, 40)))
