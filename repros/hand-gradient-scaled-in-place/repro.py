"""A custom function works in place (mark_dirty) and scales the gradient; only the gradients are compared."""
import torch
from torch import nn


class ClampInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.clamp_(-1, 1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.1


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.outer = nn.Linear(4, 2)


def squash(h):
    return ClampInPlace.apply(h)


def gradients(wrap):
    torch.manual_seed(0)
    net = Gated()
    squashed = wrap(squash)
    x, labels = torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 1, 0])
    hidden = net.inner(x)
    loss = nn.functional.cross_entropy(net.outer(squashed(hidden)), labels)
    loss.backward()
    return loss.item(), net.inner.weight.grad


loss, got = gradients(torch.compile)
reference, want = gradients(lambda f: f)
assert abs(loss - reference) < 1e-5
assert torch.allclose(got, want, atol=1e-5), f"ratio {(got.norm() / want.norm()).item():.2f}"
