"""An operator that the device does not have."""

import torch
from torch import Tensor


def f(x: Tensor) -> Tensor:
    return torch.linalg.inv(x) + 1


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(4, 4) + 3 * torch.eye(4)))
