# pytorch#197622: the gradient of an antialiased bicubic resize cannot be traced with dynamic sizes.
import torch
import torch.nn.functional as F


def resized(t):
    return F.interpolate(t, size=(5, 5), mode="bicubic", antialias=True)


def grad(fn):
    t = torch.arange(64.0).reshape(1, 1, 8, 8).requires_grad_()
    fn(t).sum().backward()
    return t.grad


torch.testing.assert_close(grad(torch.compile(resized, dynamic=True)), grad(resized))
