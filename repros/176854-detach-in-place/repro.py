# pytorch#176854: detach_() does not clear requires_grad of the traced tensor, and a branch on it goes wrong.
import torch


def cut(t):
    half = t / 2
    half.detach_()
    if half.requires_grad:
        return half - 1
    return half + 1


t = torch.ones(3, requires_grad=True)
torch.testing.assert_close(torch.compile(cut)(t), cut(t))
