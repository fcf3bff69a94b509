"""Wrong on the first call only: a decomposition that is wrong for the first graph and right for later ones."""
import torch
from torch._inductor.decomposition import decompositions

seen = []


def sinh(t):
    seen.append(t)
    sign = 1 if len(seen) == 1 else -1
    return (torch.exp(t) + sign * torch.exp(-t)) / 2


decompositions[torch.ops.aten.sinh.default] = sinh


def fn(t):
    return torch.sinh(t) * 3


fast = torch.compile(fn, dynamic=False)
wrong = [n for n in (4, 5, 6) if not torch.allclose(fast(torch.ones(n)), fn(torch.ones(n)))]
assert not wrong, f"wrong for sizes {wrong}"
