"""A weight is given transposed."""

import torch
from torch import Tensor


def f(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w)


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(6, 40), torch.randn(50, 40).t()))
