"""A logistic loss after a linear layer."""

import torch

torch.manual_seed(0)
layer = torch.nn.Linear(5, 3)


def fn(x):
    return torch.log(torch.exp(-layer(x)) + 1).mean(0)


with torch.no_grad():
    x = torch.linspace(-1, 1, 20).reshape(4, 5)
    torch.testing.assert_close(torch.compile(fn)(x), fn(x))
