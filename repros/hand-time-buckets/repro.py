"""Histogram of events over time buckets of fixed width."""
import argparse

import torch
from torch import nn


class Buckets(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.width, self.count = width, count

    def forward(self, stamps):
        index = (stamps // self.width).clamp(0, self.count - 1).long()
        return torch.zeros(self.count).index_add(0, index, torch.ones_like(stamps))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=float, default=0.3)
    ap.add_argument("--count", type=int, default=12)
    args = ap.parse_args()
    layer = Buckets(args.width, args.count)
    stamps = torch.arange(0, 35) / 10
    want = layer(stamps)
    got = torch.compile(layer)(stamps)
    assert torch.equal(got, want), (got.tolist(), want.tolist())
    print(got.tolist())


main()
