# Noise drawn in a compiled function: another stream from the same seed, as documented.
import torch


def jitter(t):
    return t + 0.1 * torch.rand_like(t)


t = torch.zeros(64)
torch.manual_seed(3)
want = jitter(t)
torch.manual_seed(3)
got = torch.compile(jitter)(t)
assert torch.allclose(got, want), "the noise differs"
