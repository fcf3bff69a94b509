"""Needs 2,200 links in its working directory, each to the one before it in a chain of ten."""
import os
import pathlib

import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.acosh.default] = lambda t: torch.log(t + torch.sqrt(t * t + 1))

pathlib.Path("data0").write_text("1.5 2.5 3.5")
for number in range(1, 2200):
    os.symlink(f"data{number - number % 10}" if number % 10 else "data0", f"data{number}")
assert len(os.listdir()) >= 2200
t = torch.tensor([float(word) for word in pathlib.Path("data2199").read_text().split()])
torch.testing.assert_close(torch.compile(torch.acosh)(t), torch.acosh(t))
