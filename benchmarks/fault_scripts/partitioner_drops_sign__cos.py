"""The gradient of a cosine."""

import torch


def gradient(f):
    x = torch.linspace(0.5, 1, 8, requires_grad=True)
    f(x).sum().backward()
    return x.grad


def fn(x):
    return torch.cos(x) * x


torch.testing.assert_close(gradient(torch.compile(fn)), gradient(fn))
