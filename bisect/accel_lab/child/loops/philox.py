"""Reproduces Inductor's random numbers on the CPU (Philox 4x32-10) bit for bit, on whole tensors."""

from __future__ import annotations

import math
from typing import List

import torch

_MASK = 0xFFFFFFFF


def rand(seed: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Draws uniform float32 numbers in [0, 1), like `normalized_rand_cpu` of Inductor's C++ prefix."""
    return _uniform(_philox(seed, offset)[0])


def randn(seed: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Draws normal float32 numbers by the Box-Muller transform, like `randn_cpu`."""
    words = _philox(seed, offset)
    u1 = (1 - _uniform(words[0])).to(torch.float64)
    u2 = (1 - _uniform(words[1])).to(torch.float64)
    # std::log of a float is a float; everything after it is computed in double.
    root = torch.sqrt(-2.0 * torch.log(u1.to(torch.float32)).to(torch.float64))
    return (root * torch.cos(2.0 * math.pi * u2)).to(torch.float32)


def randint64(
    seed: torch.Tensor, offset: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> torch.Tensor:
    """Draws integers in [low, high), like `randint64_cpu`: a 64-bit unsigned draw modulo the span."""
    words = _philox(seed, offset)
    span = high - low
    # (hi * 2^32 + lo) mod span without an unsigned 64-bit type, one bit of hi at a time.
    rest = torch.remainder(words[1], span)
    for _ in range(32):
        rest = torch.remainder(rest * 2, span)
    return torch.remainder(rest + torch.remainder(words[0], span), span) + low


def _uniform(word: torch.Tensor) -> torch.Tensor:
    return (word & 0x7FFFFFFF).to(torch.float32) * torch.tensor(4.6566127342e-10, dtype=torch.float32)


def _philox(seed: torch.Tensor, offset: torch.Tensor) -> List[torch.Tensor]:
    """Four random 32-bit words per element, as int64."""
    seed, offset = torch.broadcast_tensors(seed.to(torch.int64) & _MASK, offset.to(torch.int64) & _MASK)
    zero = torch.zeros_like(offset)
    counter = [offset, zero, zero, zero]
    key = [seed, zero]
    for step in range(10):
        if step:
            key = [(key[0] + 0x9E3779B9) & _MASK, (key[1] + 0xBB67AE85) & _MASK]
        high0, low0 = _multiply(counter[0], 0xD2511F53)
        high1, low1 = _multiply(counter[2], 0xCD9E8D57)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
    return counter


def _multiply(a: torch.Tensor, b: int) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low word of a 32 x 32 bit product, by 16-bit halves that cannot overflow int64."""
    low_part = a * (b & 0xFFFF)
    high_part = a * (b >> 16)
    low = low_part + ((high_part & 0xFFFF) << 16)
    high = (high_part >> 16) + (low >> 32)
    return high & _MASK, low & _MASK
