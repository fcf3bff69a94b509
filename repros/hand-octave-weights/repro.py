"""Weights per octave and band, laid out flat for the filter bank."""
import torch
from torch import nn


class FilterBank(nn.Module):
    def __init__(self, bands, octaves):
        super().__init__()
        self.levels = nn.Parameter(torch.linspace(-2, 2, bands * octaves).reshape(bands, octaves))

    def forward(self, spectrum):
        weights = 2.0 ** self.levels.t()
        return (weights.view(-1) * spectrum).sum()


def gradient(compiled):
    bank = FilterBank(3, 4)
    spectrum = torch.arange(12.0)
    (torch.compile(bank) if compiled else bank)(spectrum).backward()
    return bank.levels.grad


torch.testing.assert_close(gradient(True), gradient(False))
print("ok")
