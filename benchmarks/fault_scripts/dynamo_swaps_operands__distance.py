"""The signed distance of two vectors."""

import torch


def fn(a, b):
    return (a - b).sum() * 2


a, b = torch.linspace(0, 1, 8), torch.linspace(3, 5, 8)
torch.testing.assert_close(torch.compile(fn)(a, b), fn(a, b))
