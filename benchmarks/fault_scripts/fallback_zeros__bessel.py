"""A special function that the device does not have."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return torch.special.bessel_j0(x) * x


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(6, 40)))
