"""Boltzmann weights of energies given in large units, computed in double and turned to float32 by the softmax."""
import torch


def log_weights(energy):
    return torch.nn.functional.log_softmax(energy * 1e-300, dim=1, dtype=torch.float32)


energy = torch.tensor([[1e300, 2e300, -1e300], [0.0, 3e300, 1e300]], dtype=torch.float64)
print(torch.compile(log_weights)(energy).round(decimals=3).tolist())
