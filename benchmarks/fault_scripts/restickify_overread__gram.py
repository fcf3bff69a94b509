"""A product with the transpose of something computed."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return x @ (x + 1).t()


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(70, 40)))
