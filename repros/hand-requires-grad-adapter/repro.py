"""The base is frozen and its adapter thawed between two calls of the compiled model (torch 2.5.1)."""
import torch
torch.manual_seed(0)
class Adapter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(4, 4); self.low = torch.nn.Linear(4, 4)
        for p in self.low.parameters(): p.requires_grad_(False)
    def forward(self, x): return self.base(x) + self.low(x)
net = Adapter(); fast = torch.compile(net)
x = torch.ones(2, 4)
fast(x).sum().backward()
for p in net.low.parameters(): p.requires_grad_(True)
for p in net.base.parameters(): p.requires_grad_(False)
fast(x).sum().backward()
assert all(p.grad is not None for p in net.low.parameters()), "the adapter is not trained"
