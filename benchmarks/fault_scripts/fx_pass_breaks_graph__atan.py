"""An angle."""

import torch


def fn(y, x):
    return torch.atan(y / x) * 2


print(torch.compile(fn)(torch.linspace(0, 1, 5), torch.linspace(1, 2, 5)))
