"""A leaky rectifier."""

import torch


def fn(x):
    return torch.nn.functional.leaky_relu(x, 0.1).sum()


print(torch.compile(fn)(torch.linspace(-1, 1, 8)))
