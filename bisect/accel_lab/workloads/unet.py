"""A small diffusion UNet: noisy image in, noise out, with a timestep embedding in each block.

It halves the image twice, applies an attention block at the smallest size, and goes back up with skips.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

#: Batch, image side in pixels, channels of the first level. The base size has 2.7 million parameters.
SIZES = {"base": (1, 64, 64), "small": (2, 8, 8)}
LEVELS = 3
COLOURS = 3


def timestep_embedding(step: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
    """Returns the sinusoidal embedding of a timestep, (batch, width)."""
    angle = step[:, None] * rates
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Block(nn.Module):
    """Two convolutions with the timestep embedding added in between, and a residual path."""

    def __init__(self, entering: int, leaving: int, signal: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(4, entering)
        self.first = nn.Conv2d(entering, leaving, 3, padding=1)
        self.step = nn.Linear(signal, leaving)
        self.second_norm = nn.GroupNorm(4, leaving)
        self.second = nn.Conv2d(leaving, leaving, 3, padding=1)
        self.past = nn.Conv2d(entering, leaving, 1) if entering != leaving else nn.Identity()

    def forward(self, x: torch.Tensor, signal: torch.Tensor) -> torch.Tensor:
        y = self.first(functional.silu(self.first_norm(x)))
        y = y + self.step(signal)[:, :, None, None]
        return self.past(x) + self.second(functional.silu(self.second_norm(y)))


class Attention(nn.Module):
    """Single-head self-attention over all pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.into = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.into(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(mixed.transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Down path, attention and up path; ``channels`` double at each level."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(LEVELS)]
        self.signal = 4 * channels
        self.enter = nn.Conv2d(COLOURS, channels, 3, padding=1)
        self.mix = nn.Sequential(
            nn.Linear(channels, self.signal), nn.SiLU(), nn.Linear(self.signal, self.signal)
        )
        pairs = list(zip([channels, *widths[:-1]], widths, strict=True))
        self.down = nn.ModuleList(Block(a, b, self.signal) for a, b in pairs)
        self.halve = nn.ModuleList(nn.Conv2d(w, w, 3, stride=2, padding=1) for w in widths[:-1])
        self.across = Attention(widths[-1])
        self.up = nn.ModuleList(Block(a + b, a, self.signal) for a, b in pairs[:0:-1])
        self.leave_norm = nn.GroupNorm(4, channels)
        self.leave = nn.Conv2d(channels, COLOURS, 3, padding=1)
        self.register_buffer("rates", 10_000.0 ** (-torch.arange(channels // 2) / (channels // 2)))

    def forward(self, image: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        signal = self.mix(timestep_embedding(step, self.rates))
        x = self.enter(image)
        skips = []
        for level, block in enumerate(self.down):
            x = block(x, signal)
            if level < LEVELS - 1:
                skips.append(x)
                x = self.halve[level](x)
        x = self.across(x)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skips.pop()], dim=1), signal)
        return self.leave(functional.silu(self.leave_norm(x)))


def make(size: str) -> nn.Module:
    """Returns the UNet of a size."""
    return UNet(SIZES[size][2])


def batch(size: str, generator: torch.Generator) -> tuple[tuple[Any, ...], Any]:
    """Returns (noisy images and their timesteps; targets: the noise)."""
    count, side, _ = SIZES[size]
    shape = (count, COLOURS, side, side)
    steps = torch.randint(0, 1000, (count,), generator=generator).float()
    return (torch.randn(shape, generator=generator), steps), torch.randn(shape, generator=generator)


def loss(outputs: Any, targets: Any) -> Any:
    """Returns the mean squared error to the noise."""
    return functional.mse_loss(outputs, targets.to(outputs.dtype))
