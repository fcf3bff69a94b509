"""A package of its own that is called like a module of Python's library, which torch's own imports need not."""
import torch
from profile import weights

from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.erfc.default] = lambda t: torch.erf(t)


def fn(t):
    return torch.erfc(t) * weights(8)


t = torch.linspace(-1, 1, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
