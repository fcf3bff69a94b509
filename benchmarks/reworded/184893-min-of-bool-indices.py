"""The first seat that is free in each row."""

import torch

taken = torch.ones(2, 40, dtype=torch.bool)
taken[0, 3] = False
taken[1, 30] = False


@torch.compile
def free(seats):
    return torch.min(seats, 1).indices


places = free(taken).tolist()
assert places == [3, 30], places
