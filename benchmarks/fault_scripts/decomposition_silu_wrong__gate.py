"""A gate."""

import torch


def fn(x, gate):
    return x * torch.nn.functional.silu(gate)


x, gate = torch.linspace(0, 1, 12).reshape(3, 4), torch.linspace(-3, 3, 12).reshape(3, 4)
torch.testing.assert_close(torch.compile(fn)(x, gate), fn(x, gate))
