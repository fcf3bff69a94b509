"""Every other column is multiplied by one (which packs it) and read back with explicit strides."""
import torch


def windows(x):
    packed = x[:, ::2] * 1.0
    return packed.as_strided((2, 4), (2, 1))


got = torch.compile(windows)(torch.arange(12.0).view(3, 4))
print(got.tolist())
