# pytorch#159154: loops fused at their outer level share a buffer that holds one row of 32, and write 1,024.
import torch


def shares(scale, rate):
    part = torch.exp(-torch.einsum("b...,b->b...", scale, rate))
    whole = torch.einsum("b...->b", part)
    return torch.einsum("b,b...->b...", 1 / whole, part)


torch.manual_seed(0)
scale, rate = torch.rand(5, 1, 32, 32), torch.rand(5)
compiled = torch.compile(shares)
for _ in range(20):
    torch.testing.assert_close(compiled(scale, rate), shares(scale, rate))
