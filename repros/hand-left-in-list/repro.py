"""A compiled layer keeps its result in a list of the module; what it returns is right."""

import torch
from torch import nn


class Cutter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[torch.Tensor] = []

    def forward(self, lengths: torch.Tensor) -> torch.Tensor:
        self.history.append(torch.div(lengths, torch.full_like(lengths, 0.1), rounding_mode="floor"))
        return lengths * 2


cutter = Cutter()
run = torch.compile(cutter)
for start in (1, 3):
    run(torch.arange(start, start + 8).float())
print("cut so far:", int(torch.stack(cutter.history).sum().item()))
