"""The place of the number 0.1 in a sorted double tensor that holds 0.1."""
import torch


def place(edges):
    return torch.searchsorted(edges, 0.1)


edges = torch.tensor([0.05, 0.1, 0.3], dtype=torch.float64)
got, want = torch.compile(place)(edges), place(edges)
assert got.item() == want.item(), f"compiled {got.item()}, eager {want.item()}"
