"""The backbone hands out flattened features that must not train it."""
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 8)

    def forward(self, x):
        return self.lin(x)


class Flattened(nn.Module):
    @torch.no_grad()
    def forward(self, feature):
        return feature.view(feature.shape[0], -1)


def train(compiled):
    torch.manual_seed(0)
    backbone, flat, head = Backbone(), Flattened(), nn.Linear(8, 1)
    take = torch.compile(flat) if compiled else flat
    opt = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1)
    x = torch.randn(5, 6)
    for _ in range(2):
        opt.zero_grad()
        head(take(backbone(x))).pow(2).mean().backward()
        opt.step()
    return backbone.lin.weight.detach().clone(), backbone.lin.weight.grad


(want, want_grad), (got, got_grad) = train(False), train(True)
torch.testing.assert_close(got, want)
assert (got_grad is None) == (want_grad is None)
print("ok")
