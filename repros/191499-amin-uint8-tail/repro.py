# pytorch#191499: the smallest of 18 unsigned bytes is 0 though there is no 0 among them.
import torch


def ends(t):
    return torch.amin(t), torch.amax(t)


t = torch.arange(100, 118, dtype=torch.uint8)
torch.testing.assert_close(torch.compile(ends)(t), ends(t))
