"""Whole numbers above 2 to the 31st."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return x + 1


torch.manual_seed(0)
print(torch.compile(f)(torch.arange(40) + 2**40))
