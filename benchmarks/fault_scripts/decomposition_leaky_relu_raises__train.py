"""A step of training with a leaky rectifier."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 1))
loss = torch.compile(model)(torch.randn(4, 6)).square().mean()
loss.backward()
print(loss.item())
