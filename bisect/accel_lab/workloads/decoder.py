"""One generation step of a decoder-only transformer: one token with a KV cache.

The cache has the size of the whole context. Each layer writes the new token's key and value at its position
and attends to positions up to it, so all steps have the same shapes. Rotary embeddings, RMS norms and gated
feed-forward layers are as in current public language models.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .ssm import Norm

#: Batch, context, vocabulary, width, layers, heads. The base size has 44 million parameters.
SIZES = {"base": (1, 256, 32_000, 512, 8, 8), "small": (2, 16, 128, 32, 2, 2)}


def rotated(x: torch.Tensor, position: torch.Tensor, rates: torch.Tensor) -> torch.Tensor:
    """Applies rotary position embeddings to queries or keys of size (batch, heads, tokens, width)."""
    angle = position[:, None].to(rates.dtype) * rates
    left, right = x.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


class Layer(nn.Module):
    """Attention over the cache, then a gated feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        half = width // heads // 2
        self.register_buffer("rates", 10_000.0 ** (-torch.arange(half) / half))
        self.before = Norm(width)
        self.into = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.between = Norm(width)
        self.up = nn.Linear(width, 2 * 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(
        self, x: torch.Tensor, position: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        batch, tokens, width = x.shape
        parts = self.into(self.before(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        keys = keys.index_copy(2, position, rotated(key, position, self.rates))
        values = values.index_copy(2, position, value)
        seen = torch.arange(keys.shape[2], device=x.device)[None, :] <= position[:, None]
        query = rotated(query, position, self.rates)
        mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        gate, signal = self.up(self.between(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * signal), keys, values


class Decoder(nn.Module):
    """Embedding, layers, and a head that shares the embedding's weights."""

    def __init__(self, words: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = Norm(width)

    def forward(
        self, ids: torch.Tensor, position: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.embed(ids)
        new_keys, new_values = [], []
        for number, layer in enumerate(self.layers):
            x, key, value = layer(x, position, keys[number], values[number])
            new_keys.append(key)
            new_values.append(value)
        logits = functional.linear(self.norm(x), self.embed.weight)
        return logits, torch.stack(new_keys), torch.stack(new_values)


def make(size: str) -> nn.Module:
    """Returns the decoder of a size."""
    _, _, words, width, layers, heads = SIZES[size]
    return Decoder(words, width, layers, heads)


def batch(size: str, generator: torch.Generator) -> tuple[tuple[Any, ...], Any]:
    """Returns (token, position in the last quarter of the context, random cache; target: the next token)."""
    count, context, words, width, layers, heads = SIZES[size]
    ids = torch.randint(0, words, (count, 2), generator=generator)
    cache = torch.randn(2, layers, count, heads, context, width // heads, generator=generator)
    position = torch.tensor([context * 3 // 4])
    return (ids[:, :1].contiguous(), position, cache[0].contiguous(), cache[1].contiguous()), ids[:, 1:]


def loss(outputs: Any, targets: Any) -> Any:
    """Returns the cross entropy of the next token."""
    return functional.cross_entropy(outputs[0].flatten(0, 1), targets.flatten())
