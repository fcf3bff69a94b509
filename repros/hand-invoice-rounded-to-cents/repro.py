"""A small training-free billing model: line items are priced, rounded to cents and looked up in a table of known totals."""
import torch
from torch import nn


class Tariff(nn.Module):
    """Prices usage, applies a discount, rounds to cents."""

    def __init__(self):
        super().__init__()
        self.register_buffer("unit", torch.tensor([0.1, 0.25, 0.05], dtype=torch.float64))
        self.register_buffer("discount", torch.tensor([1.0, 0.5, 1.0], dtype=torch.float64))

    def forward(self, usage):
        gross = usage * self.unit
        net = gross * self.discount
        per_line = torch.round(net, decimals=2)
        return per_line, per_line.sum(dim=1)


usage = torch.tensor([[3.0, 0.0, 0.0], [7.0, 4.0, 1.0], [0.0, 2.0, 6.0]], dtype=torch.float64)
model = Tariff()
lines, totals = torch.compile(model)(usage)
known = [[0.30, 0.0, 0.0], [0.70, 0.50, 0.05], [0.0, 0.25, 0.30]]
unknown = [(r, c) for r in range(3) for c in range(3) if lines[r, c].item() != known[r][c]]
assert not unknown, f"prices not in the table: {[lines[r, c].item() for r, c in unknown]}"
print("ok", totals.tolist())
