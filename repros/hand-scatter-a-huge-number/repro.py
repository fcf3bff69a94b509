"""A large double is scattered into zeros, one per row."""
import torch


def mark(place):
    return torch.zeros(3, 4, dtype=torch.float64).scatter(1, place, 1e300)


place = torch.tensor([[1], [0], [3]])
got, want = torch.compile(mark)(place), mark(place)
assert got.dtype == want.dtype and torch.equal(got, want), got
