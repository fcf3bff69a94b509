"""A decoder counts its own steps: every one is slow, and the numbers are right."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.position = 0
        self.scale = 1.0

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        self.position += 1
        mixed = self.query(token) * self.scale
        return torch.tanh(mixed + self.position)


def main() -> None:
    torch.manual_seed(0)
    decoder = Decoder(8)
    step = torch.compile(decoder)
    token = torch.randn(2, 8)
    with torch.no_grad():
        for number in range(11):
            decoder.scale = 1.0 + number / 10
            token = step(token)
    print("last token", token.sum().item())


if __name__ == "__main__":
    main()
