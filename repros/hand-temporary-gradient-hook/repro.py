"""A hook that would change the gradient of one activation is taken off again before the activation is used."""
import torch


def step(x, w):
    h = torch.tanh(x @ w)
    handle = h.register_hook(lambda grad: grad * 10)
    handle.remove()
    return (h * h).sum()


def gradient(f):
    w = torch.eye(3).requires_grad_()
    f(torch.ones(2, 3), w).backward()
    return w.grad


got, want = gradient(torch.compile(step)), gradient(step)
assert torch.allclose(got, want, atol=1e-5), (got, want)
