"""Attention scores, 70 keys wide, compiled and compared with the uncompiled: what ``accel-lab demo`` runs.

The mock accelerator holds 32 float32 numbers a stick, so the last stick of each row is partly empty. With the
fault that the tour switches on, its exponential is wrong in that stick.
"""

import torch
from torch import nn


class Scores(nn.Module):
    """Softmax of scaled products, as attention has them."""

    def __init__(self, width: int, keys: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.keys = nn.Parameter(torch.randn(keys, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.keys.T / x.shape[-1] ** 0.5
        return torch.softmax(scores, dim=-1) * 2.0


def main() -> None:
    """Compile, run, compare."""
    torch.manual_seed(0)
    model = Scores(width=64, keys=70)
    inputs = torch.randn(8, 64)
    with torch.no_grad():
        found, expected = torch.compile(model)(inputs), model(inputs)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
