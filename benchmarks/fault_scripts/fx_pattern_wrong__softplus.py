"""A softplus that is written out."""

import torch


def fn(x):
    return torch.log(torch.exp(x) + 1) * 2


x = torch.linspace(-2, 2, 9)
torch.testing.assert_close(torch.compile(fn)(x), fn(x))
