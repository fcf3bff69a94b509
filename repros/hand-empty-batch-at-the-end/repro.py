"""A regression loop whose last batch is empty (a filter dropped all rows); eager gives NaN loss and empty gradients."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


@torch.compile
def loss_of(x, y):
    keep = net(x).squeeze(1)
    return nn.functional.mse_loss(keep, y)


optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
data, target = torch.randn(8, 4), torch.randn(8)
history = []
for rows in (slice(0, 4), slice(4, 8), slice(8, 8)):
    x, y = data[rows], target[rows]
    optimizer.zero_grad()
    loss = loss_of(x, y)
    loss.backward()
    history.append(loss.item())
    if torch.isfinite(loss):
        optimizer.step()
assert history[0] == history[0] and history[2] != history[2], history
print(history)
