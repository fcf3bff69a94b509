"""A small network trained for two steps, compiled and plain: the first layer's gradients differ (#198119)."""
import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.pool = nn.AvgPool2d(3, stride=3, ceil_mode=True)
        self.head = nn.Linear(8, 3)

    def forward(self, t):
        return self.head(self.pool(torch.tanh(self.conv(t))).flatten(1))


def train(net, call):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        images = torch.linspace(-1, 1, 50).reshape(2, 1, 5, 5) * (step + 1)
        loss = nn.functional.cross_entropy(call(images), torch.tensor([0, 2]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


torch.manual_seed(0)
net = Net()
twin = copy.deepcopy(net)
want = train(net, net)
got = train(twin, torch.compile(twin))
torch.testing.assert_close(got, want)
