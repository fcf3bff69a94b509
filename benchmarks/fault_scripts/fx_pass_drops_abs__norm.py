"""The sum of absolute values of rows."""

import torch


def fn(x):
    return x.abs().sum(-1)


x = torch.linspace(-1, 0.5, 12).reshape(3, 4)
torch.testing.assert_close(torch.compile(fn)(x), fn(x))
