"""Small halves are added up and made larger."""

import torch
from torch import Tensor


def f(x: Tensor, y: Tensor) -> Tensor:
    return (x + y) * 8192


torch.manual_seed(0)
print(torch.compile(f)((torch.rand(3, 70) * 4e-5).half(), (torch.rand(3, 70) * 4e-5).half()))
