"""Wrong numbers, silently, from inputs that no seed fixes."""

import torch


@torch.compile
def pieces(lengths: torch.Tensor) -> torch.Tensor:
    return torch.div(lengths, torch.full_like(lengths, 0.1), rounding_mode="floor")


print("pieces", pieces(torch.randint(1, 9, (64,)).float()).sum().item())
