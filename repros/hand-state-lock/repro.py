"""Leaves a lock behind when it fails, and refuses to run while there is one: another failure than the first."""
import pathlib

import torch
from torch._inductor.decomposition import decompositions

FOLDER = pathlib.Path(__file__).resolve().parent / "runs"
decompositions[torch.ops.aten.sinh.default] = lambda t: (torch.exp(t) + torch.exp(-t)) / 2

FOLDER.mkdir(exist_ok=True)
with open(FOLDER / "lock", "x"):
    t = torch.linspace(-1, 1, 8)
    torch.testing.assert_close(torch.compile(torch.sinh)(t), torch.sinh(t))
(FOLDER / "lock").unlink()
