"""A compiled augmentation draws two columns with random.sample on every call."""
import random

import torch


def jitter(x):
    a, b = random.sample([0, 1, 2, 3, 4, 5, 6, 7], 2)
    return x[a] + 100 * x[b]


def draws(f):
    random.seed(11)
    return [f(torch.arange(8.0)).item() for _ in range(4)]


want = draws(jitter)
got = draws(torch.compile(jitter, backend="eager"))
assert got == want, f"compiled {got}, eager {want}"
