# A float32 mean, compared bit by bit: compiled code adds in another order and is as near to the true value.
import torch

torch.manual_seed(0)
x = torch.randn(64, 1000)


def centred(t):
    return (t - t.mean(1, keepdim=True)) / (t.std(1, keepdim=True) + 1e-5)


assert torch.equal(torch.compile(centred)(x), centred(x)), "not the same bits"
