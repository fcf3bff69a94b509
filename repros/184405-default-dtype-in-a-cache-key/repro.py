# pytorch#184405: a cached graph is used again after the default dtype has changed.
import torch


def fresh():
    return torch.zeros(3) + torch.arange(3.0)


compiled = torch.compile(fresh)
compiled()
torch.set_default_dtype(torch.float64)
assert compiled().dtype == fresh().dtype
