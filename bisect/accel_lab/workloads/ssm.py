"""A selective state-space language model: a recurrence with input-dependent gates, as a parallel scan.

Each layer keeps, for every channel, a small state h with h[t] = a[t] * h[t-1] + b[t]; a, b and the read-out
depend on the input at t, which makes the scan selective. The scan is by doubling: after k rounds every
position includes the last 2^k steps. So log2(length) rounds of whole-tensor operations replace a loop over
time, and no division by products of small gates occurs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

#: Batch, tokens, vocabulary, width, layers, states per channel. The base size has 26.8 million parameters.
SIZES = {"base": (1, 64, 12_800, 512, 12, 16), "small": (2, 16, 128, 32, 2, 4)}
EXPAND = 2
TAPS = 4


def scan(gate: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """Returns all states of h[t] = gate[t] * h[t-1] + step[t] along dimension 1, from h = 0."""
    length = step.shape[1]
    reach = 1
    while reach < length:
        step = torch.cat([step[:, :reach], step[:, reach:] + gate[:, reach:] * step[:, :-reach]], dim=1)
        gate = torch.cat([gate[:, :reach], gate[:, reach:] * gate[:, :-reach]], dim=1)
        reach *= 2
    return step


class Norm(nn.Module):
    """RMS norm with a learned scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale


class Selective(nn.Module):
    """One layer: expand, mix the last few tokens of each channel, scan, gate, project back."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        inner, rank = EXPAND * width, max(width // 16, 1)
        self.states, self.rank = states, rank
        self.norm = Norm(width)
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.mix = nn.Conv1d(inner, inner, TAPS, groups=inner, padding=TAPS - 1)
        self.select = nn.Linear(inner, rank + 2 * states, bias=False)
        self.step_size = nn.Linear(rank, inner)
        # Decays from 1 to `states`, as in S4D-real, and step sizes from 0.001 to 0.1: the states then
        # remember from a few up to hundreds of tokens.
        rates = torch.arange(1, states + 1, dtype=torch.float32).repeat(inner, 1)
        self.log_rate = nn.Parameter(rates.log())
        step_size = torch.exp(torch.linspace(-6.9, -2.3, inner))
        with torch.no_grad():
            # The softplus of the bias is the step size.
            self.step_size.bias.copy_(step_size + torch.log(-torch.expm1(-step_size)))
        self.skip = nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signal, gate = self.enter(self.norm(x)).chunk(2, dim=-1)
        length = x.shape[1]
        signal = functional.silu(self.mix(signal.transpose(1, 2))[..., :length].transpose(1, 2))
        step_size, write, read = self.select(signal).split([self.rank, self.states, self.states], dim=-1)
        step_size = functional.softplus(self.step_size(step_size)).unsqueeze(-1)
        keep = torch.exp(-step_size * self.log_rate.exp())
        states = scan(keep, step_size * write.unsqueeze(2) * signal.unsqueeze(-1))
        out = (states * read.unsqueeze(2)).sum(-1) + signal * self.skip
        return x + self.leave(out * functional.silu(gate))


class LanguageModel(nn.Module):
    """Embedding, layers, and a head that shares the embedding's weights."""

    def __init__(self, words: int, width: int, layers: int, states: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(Selective(width, states) for _ in range(layers))
        self.norm = Norm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return functional.linear(self.norm(x), self.embed.weight)


def make(size: str) -> nn.Module:
    """Returns the language model of a size."""
    _, _, words, width, layers, states = SIZES[size]
    return LanguageModel(words, width, layers, states)


def batch(size: str, generator: torch.Generator) -> tuple[tuple[Any, ...], Any]:
    """Returns (token ids, the next token of each position)."""
    count, length, words, *_ = SIZES[size]
    ids = torch.randint(0, words, (count, length + 1), generator=generator)
    return (ids[:, :-1].contiguous(),), ids[:, 1:].contiguous()


def loss(outputs: Any, targets: Any) -> Any:
    """Returns the cross entropy of the next token."""
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
