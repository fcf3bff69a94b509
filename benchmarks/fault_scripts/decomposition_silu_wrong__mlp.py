"""A small network that is silently wrong: nothing compares its result."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 2))
with torch.no_grad():
    print(torch.compile(model)(torch.randn(4, 8)).sum())
