"""One exit code, two bugs: where #189518 is mended the script still fails, of #198119."""
import torch
import torch.nn.functional as F


def counts():
    return torch.ones(2, 5, dtype=torch.bool).cumsum(1, dtype=torch.bfloat16)


def pooled(t):
    return F.avg_pool2d(t, 3, stride=3, ceil_mode=True)


def grad(f):
    t = torch.ones(1, 1, 5, 5, requires_grad=True)
    f(t).sum().backward()
    return t.grad


torch.testing.assert_close(torch.compile(counts)(), counts())
torch.testing.assert_close(grad(torch.compile(pooled)), grad(pooled))
