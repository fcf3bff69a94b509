"""Whole numbers are divided by zero; the RuntimeError is handled."""
import torch


def share(total, people):
    return torch.div(total, people, rounding_mode="trunc")


total, people = torch.arange(32), torch.ones(32, dtype=torch.int64)
fast = torch.compile(share)
assert fast(total, people).tolist() == list(range(32))
people[3] = 0
try:
    fast(total, people)
except RuntimeError as error:
    print("refused:", error)
else:
    raise SystemExit("a division by zero went unnoticed")
