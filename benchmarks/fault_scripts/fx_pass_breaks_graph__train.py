"""The gradient of an angle."""

import torch


def fn(x):
    return torch.atan(x * x).sum()


x = torch.linspace(0, 1, 6, requires_grad=True)
torch.compile(fn)(x).backward()
print(x.grad)
