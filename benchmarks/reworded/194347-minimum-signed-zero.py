"""The lower of two signed zeros, whose sign decides a division after it."""

import torch

negative, positive = torch.zeros(5).neg(), torch.zeros(5)


def lower(a, b):
    return 1.0 / torch.minimum(a, b)


want = lower(negative, positive)
got = torch.compile(lower)(negative, positive)
if not torch.equal(want, got):
    raise ValueError(f"compiled {got.tolist()}, eager {want.tolist()}")
