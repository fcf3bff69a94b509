"""Max pooling of a cost map in which unreachable cells are minus infinity; indices must lie inside the map."""
import torch
from torch import nn

inf = float("inf")


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Conv2d(1, 1, 1, bias=False)
        nn.init.ones_(self.scale.weight)

    def forward(self, cost, blocked):
        reachable = self.scale(cost).masked_fill(blocked, -inf)
        best, where = nn.functional.max_pool2d(reachable, 3, 2, 1, return_indices=True)
        return best, where


cost = torch.arange(1.0, 26.0).view(1, 1, 5, 5)
blocked = torch.zeros(1, 1, 5, 5, dtype=torch.bool)
blocked[..., :2, :2] = True
with torch.no_grad():
    best, where = torch.compile(Pool())(cost, blocked)
inside = (where >= 0) & (where < 25)
assert inside.all(), f"indices outside the map: {where[~inside].tolist()}"
print(best.flatten().tolist())
