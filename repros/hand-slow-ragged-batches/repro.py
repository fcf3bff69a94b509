"""Batches of every length, each a shape of its own for the compiler."""

import torch
import torch.nn.functional as F

WEIGHT = torch.linspace(-1.0, 1.0, 12).reshape(3, 4)


@torch.compile(dynamic=False)
def score(rows: torch.Tensor) -> torch.Tensor:
    return F.softmax(rows @ WEIGHT.T, dim=-1).amax(dim=-1)


def batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(length, 4, generator=generator) for length in (7, 3, 9, 4, 6, 5, 8, 11)]


if __name__ == "__main__":
    print(sum(score(batch).sum().item() for batch in batches()))
