"""A row of a table for each value, and a product of it."""

import torch


def fn(table, x):
    return table[torch.floor(x).long()] @ table.t()


table, x = torch.arange(30.0).reshape(10, 3), torch.linspace(0.5, 8.5, 6)
torch.testing.assert_close(torch.compile(fn)(table, x), fn(table, x))
