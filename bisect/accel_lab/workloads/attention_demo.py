"""Compares compiled with eager attention scores over 70 keys; the script of ``accel-lab demo``.

The mock accelerator stores 32 float32 elements per stick, so the last stick of each row is partly empty. With
the fault that the demo activates, exp is wrong in that stick.
"""

import torch
from torch import nn


class Scores(nn.Module):
    """The softmax of scaled dot products, as in attention."""

    def __init__(self, width: int, keys: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.keys = nn.Parameter(torch.randn(keys, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.keys.T / x.shape[-1] ** 0.5
        return torch.softmax(scores, dim=-1) * 2.0


def main() -> None:
    """Compiles, runs and compares."""
    torch.manual_seed(0)
    model = Scores(width=64, keys=70)
    inputs = torch.randn(8, 64)
    with torch.no_grad():
        found, expected = torch.compile(model)(inputs), model(inputs)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
