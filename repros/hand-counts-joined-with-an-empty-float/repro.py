"""Small counts are joined with the (empty) float counts of an idle worker and scaled to per mille."""
import torch


def per_mille(first, second, idle):
    counts = torch.cat([first, second, idle])
    return counts * 100 / counts.sum()


first = torch.tensor([3, 9], dtype=torch.int8)
second = torch.tensor([40, 12], dtype=torch.int8)
share = torch.compile(per_mille)(first, second, torch.empty(0))
print(share)
