"""A train step in double precision: counts (int64) and measurements (float64) are joined before a tanh; the exact
values of the first activation are kept in a table and must be found again."""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 4, dtype=torch.float64)
        self.out = nn.Linear(4, 1, dtype=torch.float64)

    def forward(self, counts, measured):
        squashed = torch.tanh(torch.cat([counts, measured], dim=1))
        return self.out(torch.sigmoid(self.mix(squashed))), squashed


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
counts = torch.tensor([[1, 2], [3, 1]])
measured = torch.tensor([[0.5], [0.25]], dtype=torch.float64)
compiled = torch.compile(model)
for _ in range(2):
    optimizer.zero_grad()
    prediction, squashed = compiled(counts, measured)
    loss = (prediction.squeeze(1) - 1).square().mean()
    loss.backward()
    optimizer.step()
exact = torch.tanh(counts.double())
error = (squashed[:, :2] - exact).abs().max().item()
assert squashed.dtype == torch.float64 and error < 1e-12, f"error {error:.1e}"
