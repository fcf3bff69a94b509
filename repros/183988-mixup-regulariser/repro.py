import torch
from torch import nn


class Mixup(nn.Module):
    """Pairs each sample with another sample of the same batch."""

    def __init__(self, alpha=0.3):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        partner = torch.randperm(x.shape[0])
        return (1 - self.alpha) * x + self.alpha * x[partner]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = Mixup()
        self.body = nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Linear(24, 1))

    def forward(self, x):
        return self.body(self.mix(x))


torch.manual_seed(1)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
data = torch.randn(16, 10)
step = torch.compile(net)
losses = []
for _ in range(5):
    opt.zero_grad()
    loss = step(data).pow(2).mean()
    loss.backward()
    opt.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
print("losses", [round(v, 4) for v in losses])
