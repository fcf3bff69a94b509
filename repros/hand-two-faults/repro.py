"""Two independent bugs in two regions: a lost range check (#193757) and a wrong pooling gradient (#198119)."""
import torch
import torch.nn.functional as F


def loss(p, y):
    return F.binary_cross_entropy(p, y)


def pooled(t):
    return F.avg_pool2d(t, 3, stride=3, ceil_mode=True)


def rejects(f):
    try:
        f(torch.full((5,), 0.5), torch.full((5,), 2.0))
    except RuntimeError:
        return True
    return False


def grad(f):
    t = torch.ones(1, 1, 5, 5, requires_grad=True)
    f(t).sum().backward()
    return t.grad


problems = []
if not rejects(torch.compile(loss)):
    problems.append("targets outside [0, 1] were accepted")
if not torch.allclose(grad(torch.compile(pooled)), grad(pooled)):
    problems.append("the gradient of the pooling differs")
assert not problems, "; ".join(problems)
