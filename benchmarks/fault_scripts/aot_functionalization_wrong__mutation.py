"""A tangent that is written into a buffer."""

import torch


def fn(x, out):
    out[:, 1:].copy_(torch.tan(x) * 2)
    return out.sum(0)


def run(f):
    out = torch.zeros(3, 5)
    return f(torch.linspace(0.2, 1.2, 12).reshape(3, 4), out), out


torch.testing.assert_close(run(torch.compile(fn)), run(fn))
