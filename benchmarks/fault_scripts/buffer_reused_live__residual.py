"""A value that is used again, much later."""

import torch
from torch import Tensor


def f(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    h = x @ w
    r = torch.relu(h).t().contiguous()
    s = r.t() @ v
    u = torch.softmax(s, -1) @ w
    v2 = torch.softmax(u, -1) @ v
    return v2 + h


torch.manual_seed(0)
print(torch.compile(f)(torch.randn(32, 64), torch.randn(64, 64), torch.randn(64, 64)))
