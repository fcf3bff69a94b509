"""Two heads on one trunk; only the first is trained in this phase, weight decay must leave the other alone."""
import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
        self.first = nn.Linear(12, 2)
        self.second = nn.Linear(12, 3)

    def forward(self, x):
        h = self.trunk(x)
        return self.first(h), self.second(h)


torch.manual_seed(0)
model = TwoHeads()
before = model.second.weight.detach().clone()
forward = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
x, labels = torch.randn(16, 6), torch.randint(0, 2, (16,))
losses = []
for step in range(5):
    optimizer.zero_grad(set_to_none=True)
    logits, _ = forward(x)
    loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
moved = (model.second.weight - before).abs().max().item()
assert moved == 0, f"the head without a loss moved by {moved}"
