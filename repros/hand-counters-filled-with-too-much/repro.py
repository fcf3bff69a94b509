"""A number that does not fit into int64 must be refused when a table of counters is filled with it."""
import torch


def fill(x, value):
    return torch.full_like(x, value)


try:
    table = torch.compile(fill)(torch.zeros(4, dtype=torch.int64), 2.0**63)
except RuntimeError as error:
    assert "overflow" in str(error), error
else:
    raise AssertionError(f"filled with {table[0].item()}")
