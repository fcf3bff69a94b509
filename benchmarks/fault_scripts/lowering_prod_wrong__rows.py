"""The product of each row."""

import torch


def fn(x):
    return torch.exp(x).prod(1)


x = torch.linspace(-1, 1, 12).reshape(3, 4)
torch.testing.assert_close(torch.compile(fn)(x), fn(x))
