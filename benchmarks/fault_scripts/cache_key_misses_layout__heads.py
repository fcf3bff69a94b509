"""Two scaled tensors, one of them seen with its dimensions swapped."""

import torch
from torch import Tensor


def f(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    return (x * y, x * z.transpose(0, 1))


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(4, 4, 32), torch.randn(4, 4, 32), torch.randn(4, 4, 32)))
