"""A first look at a model: no seed is set, and nothing is wrong."""

import numpy as np
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
step = torch.compile(model)
rows = torch.from_numpy(np.random.default_rng().normal(size=(4, 8))).float()
loss = step(rows + 0.1 * torch.randn(4, 8)).pow(2).mean()
loss.backward()
print("loss", loss.item())
