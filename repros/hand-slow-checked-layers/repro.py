"""Each layer checks its own output, and the graph ends there."""

import torch
from torch import nn


class Checked(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        largest = x.abs().max().item()
        if largest > 1e3:
            raise RuntimeError(f"diverged: {largest}")
        return torch.relu(x)


def main() -> None:
    torch.manual_seed(1)
    net = torch.compile(nn.Sequential(Checked(6), Checked(6), nn.Linear(6, 1)))
    for _ in range(3):
        print("out", net(torch.ones(2, 6)).sum().item())


if __name__ == "__main__":
    main()
