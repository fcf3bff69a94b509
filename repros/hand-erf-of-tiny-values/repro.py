"""Wrong numbers and exit code 0: the vectorised erf of values of 1e-9 is zero."""
import torch


@torch.compile
def smoothed(t):
    return torch.erf(t) * 2


values = torch.linspace(1e-9, 1e-8, 64)
print("erf", smoothed(values)[:3].tolist())
