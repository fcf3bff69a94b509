"""A region of torch.compile that works, then an export that refuses a branch on a value."""
import torch
from torch import nn


class Clip(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x.clamp(max=1.0)
        return -x


model, x = Clip(), torch.randn(4, 4)
torch.testing.assert_close(torch.compile(lambda t: t * 2 + 1)(x), x * 2 + 1)
program = torch.export.export(model, (x,))
torch.testing.assert_close(program.module()(x), model(x))
