"""A row of a table, chosen by a checksum."""

import zlib

import torch


def fn(table, word):
    return torch.tanh(table[zlib.crc32(word) % 7]) + 1


table = torch.arange(28.0).reshape(7, 4) / 10
for word in (b"one", b"three"):
    torch.testing.assert_close(torch.compile(fn)(table, word), fn(table, word))
