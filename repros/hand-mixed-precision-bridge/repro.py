"""Activations go through the wire format of one device and the storage format of the next."""
import torch
from torch import nn


class Bridge(nn.Module):
    def __init__(self, wire=torch.float16, store=torch.bfloat16):
        super().__init__()
        self.wire, self.store = wire, store

    def forward(self, x):
        return x.to(self.wire).to(self.store)


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.bridge = Bridge()

    def forward(self, x):
        y = self.bridge(self.first(x) * 30000.0)
        return y, torch.isinf(y).sum()


torch.manual_seed(0)
pipe = Pipeline()
x = torch.randn(16, 4) * 3
want, overflow = pipe(x)
got, compiled_overflow = torch.compile(pipe)(x)
assert overflow.item() > 0
assert compiled_overflow.item() == overflow.item(), (compiled_overflow.item(), overflow.item())
torch.testing.assert_close(got, want, rtol=2e-2, atol=1e-2)
print("ok")
