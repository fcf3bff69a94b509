"""A block of a network whose activation is configured with alpha 0: eager refuses the configuration."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.alpha = alpha

    def forward(self, features):
        return torch.celu(self.dense(features), self.alpha).sum()


block, features = Block(0.0), torch.ones(2, 4)
outcomes = []
for call in (block, torch.compile(block)):
    try:
        call(features)
        outcomes.append("accepted")
    except Exception:
        outcomes.append("refused")
if outcomes[0] != outcomes[1]:
    raise SystemExit(f"eager {outcomes[0]} alpha=0, compiled code {outcomes[1]} it")
