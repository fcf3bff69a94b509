"""Two layers, with such an extent between them."""

import torch
from torch import Tensor


def f(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return torch.relu(x @ w) @ v


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(8, 64), torch.randn(64, 45), torch.randn(45, 10)))
