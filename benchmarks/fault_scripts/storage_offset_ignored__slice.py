"""The input is a slice of a longer tensor."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return x * 2


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(300)[100:200]))
