import torch
from torch import nn


class EdgeBlock(nn.Module):
    """Shifts the picture, repeats the border and filters."""

    def __init__(self, channels):
        super().__init__()
        self.pad = nn.ReplicationPad2d((1, 2, 1, 1))
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x):
        return self.conv(self.pad(torch.sin(x)))


def train(compiled):
    torch.manual_seed(0)
    net = EdgeBlock(3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 5, 4).to(memory_format=torch.channels_last).requires_grad_()
    run = torch.compile(net) if compiled else net
    run(x).pow(2).mean().backward()
    return x.grad


want, got = train(False), train(True)
torch.testing.assert_close(got, want)
assert got.stride() == want.stride(), (got.stride(), want.stride())
print("ok")
