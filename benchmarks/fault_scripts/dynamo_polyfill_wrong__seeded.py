"""A scale that is derived from a name."""

import zlib

import torch


def fn(x):
    return x * (zlib.crc32(b"layer.weight") % 97)


x = torch.arange(5.0)
torch.testing.assert_close(torch.compile(fn)(x), fn(x))
