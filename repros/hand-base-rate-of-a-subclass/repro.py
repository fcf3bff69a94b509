"""A schedule changes the rate of one class of layers while training; the attribute first comes from the base class."""
import torch
from torch import nn


class Settings:
    rate = 2.0


class DeepSettings(Settings):
    pass


class Gate(nn.Module):
    def __init__(self, width, settings):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.eye_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.settings = settings

    def forward(self, x):
        return self.linear(x) * self.settings.rate


model = nn.Sequential(Gate(3, DeepSettings()), nn.Identity())
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
x = torch.ones(2, 3)
means = []
for epoch in range(3):
    if epoch == 1:
        DeepSettings.rate = 5.0
    optimizer.zero_grad()
    out = compiled(x)
    out.mean().backward()
    optimizer.step()
    means.append(round(out.mean().item(), 4))
assert means == [2.0, 5.0, 5.0], means
