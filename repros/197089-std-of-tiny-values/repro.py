"""Wrong numbers and exit code 0: the deviation of values of 1e-30 is zero, since their squares vanish (#197089)."""
import torch


@torch.compile
def deviation(t):
    return t.std(-1)


values = torch.linspace(1, 2, 96).reshape(3, 32) * 1e-30
print("deviation", deviation(values).tolist())
