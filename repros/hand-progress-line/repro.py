"""The step returns the line for the progress bar together with the loss."""
import torch
from torch import nn


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.net = nn.Linear(4, 1)

    def step(self, x, rate):
        loss = self.net(x).pow(2).mean()
        return loss * rate, f"rate {rate:.3f}"


trainer = Trainer()
step = torch.compile(trainer.step)
x = torch.randn(8, 4)
rate = 0.1
for epoch in range(4):
    want, line = trainer.step(x, rate)
    got, compiled_line = step(x, rate)
    torch.testing.assert_close(got, want)
    assert compiled_line == line, (compiled_line, line)
    rate *= 0.7
print(line)
