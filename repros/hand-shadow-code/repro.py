"""A module of its own that is called like one of Python's library: ``import code`` means the file beside it."""
import code

import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.sinh.default] = lambda t: (torch.exp(t) + torch.exp(-t)) / 2

t = torch.tensor(code.encode("accelerator"))
torch.testing.assert_close(torch.compile(torch.sinh)(t), torch.sinh(t))
