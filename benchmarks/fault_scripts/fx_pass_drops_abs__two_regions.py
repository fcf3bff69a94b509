"""Two regions of which one takes absolute values; nothing compares the results."""

import torch

first = torch.compile(lambda x: torch.sin(x) * 3)
second = torch.compile(lambda x: torch.exp(-x.abs()).mean())
print(second(first(torch.linspace(-2, 2, 16))))
