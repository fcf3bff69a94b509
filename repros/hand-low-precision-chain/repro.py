import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a = nn.Parameter(torch.linspace(0.1, 1.7, dim))
        self.b = nn.Parameter(torch.linspace(-1.3, 0.9, dim))

    def forward(self, x):
        y = x * self.a + self.b
        y = y * torch.sigmoid(y) - x / 3
        return y * 1.1 + y


torch.manual_seed(0)
mixer = Mixer(64).to(torch.bfloat16)
x = torch.randn(16, 64, dtype=torch.bfloat16)
want, got = mixer(x), torch.compile(mixer)(x)
different = (want != got).sum().item()
print(different, "of", want.numel(), "values differ")
assert different == 0
