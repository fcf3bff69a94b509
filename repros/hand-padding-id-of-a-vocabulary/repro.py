"""A bag-of-words classifier in training. A row with the padding id -1 must be refused and skipped by the loop."""
import torch
from torch import nn


class Bag(nn.Module):
    def __init__(self, words=12, width=8, classes=3):
        super().__init__()
        self.table = nn.Parameter(torch.linspace(-1, 1, words * width).view(words, width))
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        rows = self.table.index_select(0, ids.reshape(-1))
        bag = rows.view(*ids.shape, -1).mean(dim=1)
        return self.head(torch.tanh(self.hidden(bag)))


torch.manual_seed(0)
model = Bag()
step_model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [
    (torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([0, 1])),
    (torch.tensor([[1, 2, -1], [7, 8, -1]]), torch.tensor([2, 1])),
    (torch.tensor([[9, 10, 11], [3, 2, 1]]), torch.tensor([0, 2])),
]
skipped = 0
for ids, labels in batches:
    optimizer.zero_grad()
    try:
        loss = nn.functional.cross_entropy(step_model(ids), labels)
    except (IndexError, RuntimeError):
        skipped += 1
        continue
    loss.backward()
    optimizer.step()
assert skipped == 1, f"{skipped} batches refused, there is one with an invalid id"
