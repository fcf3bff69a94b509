"""A state that is read by a product and then set."""

import torch


def fn(state, x):
    out = state @ x
    state.mul_(0).add_(1)
    return out


def run(f):
    state = torch.arange(16.0).reshape(4, 4)
    return f(state, torch.linspace(0, 1, 8).reshape(4, 2)), state


torch.testing.assert_close(run(torch.compile(fn)), run(fn))
