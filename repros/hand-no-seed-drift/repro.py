"""Wrong numbers, silently, from inputs that no seed fixes."""

import torch


@torch.compile
def discount(rate: torch.Tensor) -> torch.Tensor:
    steps = torch.full((300,), 0.3, dtype=torch.bfloat16)
    return torch.exp(-rate[:, None] * torch.cumsum(steps, 0, dtype=torch.float32)[None])


print(discount(torch.rand(3)).mean(dim=1))
