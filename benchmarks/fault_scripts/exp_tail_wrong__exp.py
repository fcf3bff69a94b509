"""A width that is no multiple of the stick."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return torch.exp(x) * 2


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(8, 70)))
