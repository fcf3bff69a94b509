"""The gradient with respect to what is divided by."""

import torch


def fn(a, b):
    return torch.sigmoid(a) / b


def gradients(f):
    a = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    b = torch.linspace(1, 2, 4).requires_grad_()
    f(a, b).sum().backward()
    return a.grad, b.grad


torch.testing.assert_close(gradients(torch.compile(fn)), gradients(fn))
