"""A linear step whose bias was made for a larger batch."""

import torch


class Step(torch.nn.Module):
    def forward(self, bias, rows, weights):
        return torch.relu(torch.addmm(bias, rows, weights))


bias, rows, weights = torch.randn(8, 1), torch.randn(1, 3), torch.randn(3, 1)
step = Step()
try:
    step(bias, rows, weights)
except RuntimeError:
    try:
        torch.compile(step)(bias, rows, weights)
    except RuntimeError:
        raise SystemExit(0) from None
    raise SystemExit("the compiled step broadcast what eager refuses") from None
