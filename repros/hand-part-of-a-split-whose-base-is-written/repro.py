"""The first part of a split is returned, after the whole tensor (which has a history) was written."""
import torch


def first(whole):
    part = whole.split(2)[0]
    whole.add_(1)
    return part, whole.sum()


def run(f):
    leaf = torch.arange(6.0, requires_grad=True)
    part, total = f(leaf * 3)
    return part.detach(), total, torch.autograd.grad(total, leaf)[0]


want = run(first)
got = run(torch.compile(first, backend="aot_eager"))
torch.testing.assert_close(got, want)
