"""Rounds to a grid."""

import torch


def fn(x):
    return torch.floor(x * 8) / 8


x = torch.linspace(-1.1, 1.1, 24)
torch.testing.assert_close(torch.compile(fn)(x), fn(x))
