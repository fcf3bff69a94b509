"""Resumes from the checkpoint that its first run leaves beside it: a second run there has nothing to do."""
import pathlib
import sys

import torch
from torch._inductor.decomposition import decompositions

STATE = pathlib.Path(__file__).resolve().parent / "state.pt"
decompositions[torch.ops.aten.sinh.default] = lambda t: (torch.exp(t) + torch.exp(-t)) / 2

if STATE.exists():
    print("resumed after step", torch.load(STATE)["step"])
    sys.exit(0)

t = torch.linspace(-1, 1, 8)
got = torch.compile(torch.sinh)(t)
torch.save({"step": 1}, STATE)
torch.testing.assert_close(got, torch.sinh(t))
