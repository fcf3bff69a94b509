"""Looks a compiled module up by its class: torch.compile returns an object of another one."""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, t):
        return self.layer(t).relu()


LEARNING_RATES = {Encoder: 0.1}
model = torch.compile(Encoder())
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATES[type(model)])
model(torch.ones(2, 3)).sum().backward()
optimizer.step()
