"""Ids (int64) and weights (float32) travel through one table and are split again; both parts must be float."""
import torch


def through(ids, weights):
    table = torch.cat([ids, weights], dim=1)
    left, right = table.split([2, 1], dim=1)
    return left, right * 2


left, right = torch.compile(through)(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[0.5], [0.25]]))
assert left.dtype == torch.float32, f"{left.dtype}: {left.tolist()}"
