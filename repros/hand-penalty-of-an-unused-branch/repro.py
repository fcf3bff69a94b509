"""A custom function with two outputs (features and a penalty term); a gradient that is absent must stay None."""
import torch
from torch import nn


class Split(torch.autograd.Function):
    """Returns scaled features and a side term; its backward adds a constant only if the side term is used."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, grad_main, grad_side):
        total = None
        if grad_main is not None:
            total = grad_main * 2
        if grad_side is not None:
            side = grad_side * 3 + 0.5
            total = side if total is None else total + side
        return total


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        main, side = Split.apply(torch.tanh(self.first(x)))
        return self.second(main), side


def train(wrap):
    torch.manual_seed(0)
    net = Net()
    run = wrap(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    for _ in range(4):
        optimizer.zero_grad()
        out, _ = run(x)
        nn.functional.mse_loss(out, y).backward()
        optimizer.step()
    return net.first.weight.detach()


want, got = train(lambda net: net), train(torch.compile)
assert torch.allclose(got, want, atol=1e-4), f"weights differ by {(got - want).abs().max().item():.3f}"
