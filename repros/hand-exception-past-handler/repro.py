"""The script expects a singular matrix and catches that error; the decomposition raises another, past its handler."""
import torch
from torch._inductor.decomposition import decompositions


def sinh(t):
    raise ZeroDivisionError("sinh divides by nothing")


decompositions[torch.ops.aten.sinh.default] = sinh


def fn(t):
    return torch.linalg.inv(torch.sinh(t))


for f in (fn, torch.compile(fn)):
    try:
        f(torch.zeros(3, 3))
    except torch.linalg.LinAlgError:
        print("singular, as it should be")
    else:
        raise SystemExit("a singular matrix was inverted")
