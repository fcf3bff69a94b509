"""Whole numbers above 2 to the 33rd are told from the smaller ones."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return torch.where(x > 2**33, x * 2, x)


torch.manual_seed(0)
print(torch.compile(f)(torch.arange(0, 70) * 2**28))
