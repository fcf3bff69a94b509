"""Groups parameters by their names: those of a compiled module begin with the wrapper's own attribute."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.head = nn.Linear(3, 1)

    def forward(self, t):
        return self.head(self.body(t))


model = torch.compile(Net())
groups = {"body": [], "head": []}
for name, parameter in model.named_parameters():
    groups[name.split(".")[0]].append(parameter)
torch.optim.SGD([{"params": one} for one in groups.values()], lr=0.1)
